"""`runner reproduce` repeats a run from its record alone, and compares the results."""

import hashlib
import json
import shutil
from contextlib import nullcontext
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from runner.core.errors import RequestError
from runner.definitions.definition import hash_resolved
from runner.records.folder import RunFolder
from runner.tools.proof.comparison import compare, explain
from runner.tools.proof.integrity import Check
from runner.tools.proof.reproduce import options_again
from runner.tools.proof.reproduce_command import ask
from tests.support.projects import OK, Project, make_project
from tests.support.records import Make, event_lines
from tests.support.repository import git
from tests.tools.proof.conftest import claim_diff, committed, one_run, ran, refused, verdict_of


def printed(rank: int, losses: list[float], threads: int = 1) -> bytes:
    told: list[tuple[str, Any, dict[str, Any]]] = [("run_start", None, {"threads": threads, "device_name": "CPU"})]
    for number, loss in enumerate(losses, 1):
        told.append(("epoch_stop", None, {"epoch_num": number, "steps": 13, "loss_hex": loss.hex()}))
    return event_lines(rank, [*told, ("run_stop", None, {"status": "success"})])


def test_the_first_value_that_differs_is_named_and_what_may_explain_it(make: Make, tmp_path: Path) -> None:
    def ran_with(loss: float, sources: str = "c", threads: int = 1) -> RunFolder:
        stdout = {0: printed(0, [0.5]), 1: printed(1, [0.5, loss], threads)}
        return make.run(tmp_path, layout="1x2", stdout=stdout, code={"sources_sha256": sources * 64})

    def compared(now: RunFolder) -> Check:
        return compare(was.path, was.read(), now.path, now.read())

    was = ran_with(0.25)
    assert compared(ran_with(0.25)).same is True
    check = compared(ran_with(1.5))
    assert check.same is False
    place = "at rank 1, epoch 2 (steps 14 to 26), epoch_stop loss_hex:"
    assert f"{place} '{(0.25).hex()}' before, '{(1.5).hex()}' now; inputs" in check.says
    assert compared(ran_with(1.5, threads=2)).says.endswith("; threads 1 before, 1, 2 now")
    assert compared(ran_with(0.25, "d")).same is False


def test_a_stranger_reproduces_an_archive_without_a_clone(bundled: Project, tmp_path: Path) -> None:
    stranger = Project(tmp_path, bundled.env)
    shutil.copy(bundled.root / "kit.tar", tmp_path / "kit.tar")
    refused(stranger, "--yes", "reproduce", "kit.tar", code=2)
    assert not (tmp_path / "reproduced").exists()
    verdict = verdict_of(stranger, "reproduce", "kit.tar", "--yes")
    assert verdict["level"] == 2
    assert verdict["run"].startswith("kit.tar: tiny/")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kit.tar", "reproduced"]
    (again,) = (tmp_path / "reproduced" / "tiny").iterdir()
    assert RunFolder(again).launch().code["commit"] == RunFolder(bundled.runs()[0]).launch().code["commit"]


def test_a_run_that_followed_the_clock_is_made_again_with_what_it_chose(project: Project) -> None:
    chosen = 'import time; pace = str(time.time()) if args.pace == "measured" else args.pace; rank = int('
    program = OK.replace("verbose", "pace").replace('action="store_true"', "").replace("rank = int(", chosen)
    repeat = 'log.point("repeat_with", {"pace": pace, "unknown": "1", "seed": 7}); log.point("tracked_stats"'
    program = program.replace("(0.5).hex()", "float(pace).hex()").replace('log.point("tracked_stats"', repeat)
    project.program("toys.paced", program)
    project.define(program="toys.paced", matrix={"layout": ["1x1"], "pace": ["measured"]})
    committed(project)
    ran(project, "run", "tiny")
    record = RunFolder(project.runs()[0]).read()
    pace = record.facts["repeat_with"]["pace"]
    assert "followed the clock" in project.runner("summarize").stdout
    verdict = verdict_of(project, "reproduce", project.runs()[0])
    assert verdict["level"] == 2
    assert f"pace={pace}" in verdict["notes"][0]
    assert "followed the clock" not in explain(record, record)
    record.facts["repeat_with"] = None
    assert "followed the clock" in explain(record, record)


def test_nothing_is_run_from_an_altered_archive_and_from_an_altered_record_only_if_asked(
    bundled: Project, tmp_path: Path
) -> None:
    kit, results = tmp_path / "kit.tar", ("--results", tmp_path / "again")
    kit.write_bytes((bundled.root / "kit.tar").read_bytes().replace(b"def main():", b"def niam():"))
    refused(bundled, "experiments/toys/ok.py: altered", "reproduce", kit, "--yes", *results)
    run = shutil.copytree(bundled.runs()[0], tmp_path / "results" / "tiny" / bundled.runs()[0].name)
    with (run / "raw" / "node0-rank0.stderr").open("ab") as file:
        file.write(b"x")
    refused(bundled, "raw/node0-rank0.stderr: altered", "reproduce", run, *results)
    assert not (tmp_path / "again").exists()
    verdict = verdict_of(bundled, "reproduce", run, *results, "--anyway", code=1)
    assert (verdict["level"], verdict["checks"][0]["same"]) == (None, True)


def test_what_cannot_be_run_again_is_refused_in_one_line(
    bundled: Project, finished: Project, project: Project, tmp_path: Path
) -> None:
    committed(project)
    command, again = "reproduce", f"--results={tmp_path / 'again'}"
    refused(finished, "the record names no commit", command, finished.runs()[0], again)
    refused(finished, "the folder of one run", command, "results", again, code=2)
    refused(bundled, "no run 'nosuch' in it", command, "kit.tar", "--run", "nosuch", again, code=2)
    refused(project, "git fetch", command, bundled.runs()[0], again)
    assert not (tmp_path / "again").exists()


def test_on_a_terminal_it_shows_what_it_would_run_of_an_archive_and_asks(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    run, terminal = make.run(tmp_path), StringIO("y\nn\n")
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", terminal)
    record = run.read()
    record.launch.args["env.LD_PRELOAD"] = "of its own.so"
    for answer in (nullcontext(), pytest.raises(RequestError, match="nothing was run")):
        with answer:
            ask(tmp_path / "kit.tar", [(run.path, record)])
        assert "LD_PRELOAD='of its own.so' torchrun -m experiments.toys.ok" in capsys.readouterr().err


def with_kept_changes(project: Project) -> Path:
    committed(project)
    path = project.root / "experiments" / "toys" / "ok.py"
    path.write_text(path.read_text().replace("(0.5).hex()", "(0.25).hex()"))
    run = one_run(project)
    git(project.root, "restore", ".")
    return run


@pytest.mark.slow
def test_a_project_in_a_folder_of_a_repository_is_made_again_with_its_changes_also_from_an_archive(
    tmp_path: Path,
) -> None:
    top = tmp_path / "mono répo"
    project = make_project(top / "services" / "my [exp]", tmp_path / "cache")
    (top / "shared.txt").write_text("shared\n")
    (project.root / ".gitattributes").write_text("experiments/toys export-ignore\n*.yaml export-subst\n")
    committed(project, top)
    (top / "shared.txt").write_text("changed\n")
    run = with_kept_changes(project)
    ran(project, "bundle", "results")
    ran(project, "verify", "kit.tar")
    for where in (run, project.root / "kit.tar"):
        assert verdict_of(project, "reproduce", where, "--yes")["level"] == 2
    ran(project, "verify", "reproduced")


def test_changes_that_were_cut_or_that_no_tree_takes_are_not_run(project: Project) -> None:
    run = with_kept_changes(project)
    diff = run / "request" / "code.diff"
    diff.write_bytes(diff.read_bytes().replace(b"(0.5)", b"(0.7)"))
    claim_diff(project, run, "d" * 64)
    refused(project, "hash", "reproduce", run)
    claim_diff(project, run, hashlib.sha256(diff.read_bytes()).hexdigest())
    refused(project, "kept changes", "reproduce", run)


def test_a_cell_that_cannot_be_put_together_costs_no_other_its_verdict(project: Project, make: Make) -> None:
    committed(project)
    one_run(project)
    sha256 = hash_resolved(make.launch().definition)
    make.run(project.results, layout="1x2", definition_sha256=sha256)
    code = {"commit": git(project.root, "rev-parse", "HEAD").strip(), "dirty": False, "sources_sha256": "c" * 64}
    make.run(project.results, layout="1x3", program="toys.gone", code=code, definition_sha256=sha256)
    ran(project, "bundle", "results")
    shown = ran(project, "reproduce", "kit.tar", "--yes", "--json", code=1).stdout
    verdicts = json.loads(shown)["runs"]
    assert sorted(verdict["level"] == 2 for verdict in verdicts) == [False, False, True]
    assert any("the record names no commit" in why for verdict in verdicts for why in verdict["stopped"])
    assert "/tmp/" not in shown  # a name, not a place to write
    assert str(project.root.parent) not in shown


@pytest.mark.parametrize(
    ("target", "options", "image", "says"),
    [
        ("ssh", {"hosts": "prod-db1,prod-db2", "config": "/home/eve/ssh"}, None, "hosts, config"),
        ("kubernetes", {"job": "indexed", "context": "prod", "shm_size": "1Gi"}, None, "context"),
        ("compose", {"image": "eve/miner", "link": "1gbit"}, None, "image"),
        ("slurm", {"partition": "gpu", "container": "eve.sif"}, None, "partition, container"),
        ("compose", {"memory": "0", "shm_size": "1gb", "link": "1gbit"}, {"id": "sha256:" + "a" * 64}, ""),
        ("compose", {}, {"id": "eve/miner"}, ""),
    ],
)
def test_what_somebody_elses_record_names_is_used_only_where_a_person_names_it_too(
    make: Make, tmp_path: Path, target: str, options: dict[str, Any], image: Any, says: str
) -> None:
    launch = make.launch(target=target, options=options, image=image)
    if not says:
        words = str(options_again(tmp_path, launch, target, is_trusted=False))
        assert ("eve" in words, "image=sha256:" in words) == (False, bool(options))
        return
    with pytest.raises(RequestError, match=f"its {says} is .*--on {target} --with"):
        options_again(tmp_path, launch, target, is_trusted=False)
    assert options_again(tmp_path, launch, "local", is_trusted=False) == []
    assert len(options_again(tmp_path, launch, target, is_trusted=True)) == len(options)
