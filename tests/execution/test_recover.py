"""`runner recover` finishes the runs of dead runners, and touches nothing else."""

import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from runner.execution.recover import is_own, remember
from runner.records import provenance
from runner.records.folder import RunFolder, begin
from runner.records.schema import NodeExit, Record
from tests.support.projects import Project
from tests.support.records import make_launch, make_lines, make_run

DEAD = {**provenance.describe_runner(), "pid": 4_000_000, "pid_started": 1.0}
PRINTED, RAW = "raw/node0/x_0/attempt_0/0/stdout.log", "raw/node0-rank0.stdout"
"""The output of rank 0, as torchrun leaves it and as a finished run has it."""


def begun(project: Project, *, lines: bytes = make_lines(0, 10.0), **changes: Any) -> RunFolder:
    """Make an unfinished run of a dead runner, which this user has not started."""
    launch = make_launch(**{"runner": DEAD, **changes})
    folder = begin(project.results, launch, "{}", "")
    if lines:
        printed = folder.path / PRINTED
        printed.parent.mkdir(parents=True)
        printed.write_bytes(lines)
    return folder


def states(folder: RunFolder) -> dict[str, tuple[int, bytes]]:
    found = (path for path in folder.path.rglob("*") if path.is_file())
    return {str(path.relative_to(folder.path)): (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


def test_a_run_of_a_dead_runner_is_finished_with_all_that_was_printed(project: Project) -> None:
    folder = begun(project)
    (folder.path / ".run.json.77.tmp").write_text("{")
    before, name = states(folder), f"results/tiny/{folder.path.name}"
    dry = project.runner("recover", "results", "--dry-run")
    assert (dry.code, dry.stdout.startswith(f"{name}: would finish: ")) == (0, True)
    assert states(folder) == before
    done = project.runner("recover")
    assert (done.code, done.stdout.startswith(f"{name}: finished: incomplete")) == (0, True)
    assert "9 events" in done.stdout
    assert {*states(folder)} == {*before, "SHA256SUMS", RAW} - {".run.json.77.tmp", PRINTED}
    record = folder.read()
    assert record.status == "incomplete"
    assert record.metrics["train_seconds"] == 10.0
    again = project.runner("recover")
    assert (again.code, again.stdout) == (0, "")


def test_a_run_is_finished_at_whichever_step_its_runner_died_and_one_by_hand_as_collect_does(project: Project) -> None:
    writing, unbegun, by_hand = (
        make_run(project.results, runner=DEAD),
        begun(project, lines=b""),
        begun(project, by_hand=True),
    )
    writing.replace(Record(launch=writing.launch(), status="running"))
    (unbegun.path / "run.json").unlink()
    by_hand.keep_exit(NodeExit(0, 0))
    assert project.runner("recover").code == 0
    assert [folder.read().status for folder in (writing, unbegun, by_hand)] == ["completed", "incomplete", "completed"]


def test_the_pid_of_a_dead_runner_may_be_that_of_another_process(project: Project) -> None:
    own = psutil.Process()
    folder = begun(project, runner={**DEAD, "pid": own.pid, "pid_started": own.create_time() - 3600})
    assert project.runner("recover").code == 0
    assert folder.read().events["seen"] == 9
    assert (folder.path / RAW).read_bytes() == make_lines(0, 10.0)


def test_what_lives_is_left_alone(project: Project) -> None:
    alive = begun(project, runner=provenance.describe_runner())
    elsewhere = begun(project, runner={**DEAD, "host": "elsewhere\x1b[31m"})
    held = begun(project)
    by_hand = begun(project, by_hand=True)
    folders = (alive, elsewhere, held, by_hand)
    before = [*map(states, folders)]
    with held.held(), by_hand.held():
        done = project.runner("recover")
    assert [*map(states, folders)] == before
    said = dict(line.partition(": ")[::2] for line in done.stdout.splitlines())
    assert done.code == 1
    for folder, words in zip(folders, (f"runner {os.getpid()}", "on elsewhere", "locked", "nodes"), strict=True):
        assert words in said[f"results/tiny/{folder.path.name}"]


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
    path = begun(project).path
    remember(path)
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
    done = project.runner("recover")
    assert done.code == 1
    for folder, (_, _, why) in zip(broken, BROKEN, strict=True):
        assert f"{folder.path.name}: left as it is: {why}" in done.stdout, done.stdout
    assert whole.read().status == "incomplete"
    assert "nowhere" in project.refused("recover", "nowhere")
