"""`runner recover`: the records of dead runners are finished, and nothing else is ended or touched."""

import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from runner.execution.recover import is_own, remember
from runner.records import provenance
from runner.records.folder import RunFolder, begin
from runner.records.schema import NodeExit, Record
from tests.support.projects import Ended, Project
from tests.support.records import make_launch, make_lines, make_run

DEAD = {**provenance.describe_runner(), "pid": 4_000_000, "pid_started": 1.0}
KILLED = "incomplete: the runner did not record how the run ended: it was killed, or it could not write"


def begun(project: Project, *, lines: bytes = make_lines(0, 10.0), own: bool = False, **changes: Any) -> RunFolder:
    """A run of a dead runner, as it lies there; by default one that this user has not started."""
    launch = make_launch(**{"runner": DEAD, **changes})
    folder = begin(project.results, launch, "{}", "")
    if own:
        remember(folder.path)
    if lines:
        worker = folder.node(0) / "x_0" / "attempt_0" / "0"
        worker.mkdir(parents=True)
        (worker / "stdout.log").write_bytes(lines)
    return folder


def recovered(project: Project, *words: str) -> Ended:
    """Recover; every line is about a run, and one line only."""
    done = project.runner("recover", *words)
    assert "Traceback" not in done.stderr
    return done


def states(folder: RunFolder) -> dict[str, tuple[int, bytes]]:
    found = (path for path in folder.path.rglob("*") if path.is_file())
    return {str(path.relative_to(folder.path)): (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


def test_a_run_of_a_dead_runner_is_finished_with_all_that_was_printed(project: Project) -> None:
    folder = begun(project)
    (folder.path / ".run.json.77.tmp").write_text("{")
    before, name = states(folder), f"results/tiny/{folder.path.name}"
    dry = recovered(project, "results", "--dry-run")
    assert (dry.code, dry.stdout) == (0, f"{name}: would finish: its runner is dead (runner 4000000)\n")
    assert states(folder) == before
    done = recovered(project)
    assert (done.code, done.stdout) == (0, f"{name}: finished: {KILLED}; 9 events of 1 ranks are kept\n")
    assert sorted(states(folder)) == [
        "SHA256SUMS",
        "raw/node0-rank0.stdout",
        "request/launch.json",
        "request/request.json",
        "run.json",
    ]
    record = folder.read()
    assert record.status == "incomplete"
    assert record.metrics["train_seconds"] == 10.0
    again = recovered(project)
    assert (again.code, again.stdout, again.stderr) == (0, "", "results: every run is finished, or its runner lives\n")


def test_a_run_is_finished_at_whichever_step_its_runner_died_and_one_by_hand_as_collect_does(project: Project) -> None:
    writing, unbegun, by_hand = (
        make_run(project.results, runner=DEAD),
        begun(project, lines=b""),
        begun(project, by_hand=True),
    )
    writing.replace(Record(launch=writing.launch(), status="running"))
    (unbegun.path / "run.json").unlink()
    by_hand.keep_exit(NodeExit(0, 0))
    assert recovered(project).code == 0
    assert [folder.read().status for folder in (writing, unbegun, by_hand)] == ["completed", "incomplete", "completed"]


def test_the_pid_of_a_dead_runner_may_be_that_of_another_process(project: Project) -> None:
    own = psutil.Process()
    folder = begun(project, runner={**DEAD, "pid": own.pid, "pid_started": own.create_time() - 3600})
    assert recovered(project).code == 0
    assert folder.read().events["seen"] == 9
    assert (folder.raw / "node0-rank0.stdout").read_bytes() == make_lines(0, 10.0)


def test_what_lives_is_left_alone(project: Project) -> None:
    alive = begun(project, runner=provenance.describe_runner())
    elsewhere = begun(project, runner={**DEAD, "host": "elsewhere\x1b[31m"})
    held = begun(project)
    by_hand = begun(project, by_hand=True)
    before = [states(folder) for folder in (alive, elsewhere, held, by_hand)]
    with held.held(), by_hand.held():
        done = recovered(project)
    assert [states(folder) for folder in (alive, elsewhere, held, by_hand)] == before
    said = dict(line.partition(": ")[::2] for line in done.stdout.splitlines())
    assert done.code == 1
    assert said[f"results/tiny/{alive.path.name}"] == f"still runs: runner {os.getpid()}"
    assert "on elsewhere" in said[f"results/tiny/{elsewhere.path.name}"]
    assert "runner recover results/tiny" in said[f"results/tiny/{elsewhere.path.name}"]
    assert "still runs: its runner, a node of it" in said[f"results/tiny/{held.path.name}"]
    assert "still runs: a node of it" in said[f"results/tiny/{by_hand.path.name}"]


def test_two_that_recover_at_once_finish_it_once(project: Project) -> None:
    folders = [begun(project) for _ in range(8)]
    processes = [project.start("recover") for _ in range(3)]
    said = "".join(process.communicate()[0] for process in processes)
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert [said.count(f"{folder.path.name}: finished") for folder in folders] == [1] * 8
    assert {folder.read().status for folder in folders} == {"incomplete"}


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("ssh", {"hosts": "h0", "config": "doc/notes.txt"}),
        ("slurm", {}),
        ("compose", {}),
        ("kubernetes", {"context": "theirs", "namespace": "x"}),
    ],
)
def test_nothing_that_a_record_of_somebody_else_names_is_used(
    project: Project, tmp_path: Path, target: str, options: dict[str, str]
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("ssh", "scancel", "squeue", "sbatch", "scontrol", "docker", "kubectl"):
        (tools / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/ran\n")
        (tools / name).chmod(0o755)
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "DOCKER_HOST": "unix:///nowhere", "KUBECONFIG": "/nowhere"}
    folder = begun(project, target=target, options=options, id=f"20261121T000000Z-{target}-00000001")
    done = project.runner("recover", env=env)
    assert (done.code, (done.stdout + done.stderr).count("\n")) == (1, 1)
    assert f"on target {target}" in done.stdout, done.snapshot
    assert not (tmp_path / "ran").exists()
    assert folder.read().status == "running"


def test_a_file_of_a_started_run_counts_only_for_its_folder(project: Project, tmp_path: Path) -> None:
    path = begun(project, own=True).path
    assert is_own(path)
    assert not is_own(path.rename(tmp_path / path.name))


BROKEN = [
    ("run.json", '{"launch": {', "run.json: broken or cut off"),
    ("request/launch.json", "", "request/launch.json: broken or cut off"),
    ("raw/outcome.json", '{"ended"', "broken or cut off"),
]


def test_broken_files_are_named_and_the_other_runs_are_finished(project: Project) -> None:
    broken, whole = [begun(project) for _ in BROKEN], begun(project)
    for folder, (file, text, _) in zip(broken, BROKEN, strict=True):
        (folder.path / file).write_text(text)
    done = recovered(project)
    assert done.code == 1
    for folder, (_, _, why) in zip(broken, BROKEN, strict=True):
        assert f"{folder.path.name}: left as it is: {why}" in done.stdout, done.stdout
    assert whole.read().status == "incomplete"


def test_a_folder_that_is_not_there_is_a_wrong_request(project: Project) -> None:
    assert "nowhere: there is no such folder" in project.refused("recover", "nowhere")
