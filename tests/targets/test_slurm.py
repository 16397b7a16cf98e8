"""The batch script of a run, and what Slurm's commands print, without a Slurm."""

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runner import targets
from runner.targets.slurm import commands
from runner.targets.slurm.ends import NodeFile, ends, starved
from runner.targets.slurm.watch import JobState
from tests.support.projects import Project
from tests.support.records import Make

ROOT = Path(__file__).parents[2]
HOSTILE = 'a\'b "c" $(touch pwned) `touch pwned` \\ ;&| #{x} %j é'


def text_of(project: Project, words: list[str] | None = None, device: str = "cpu", **changes: Any) -> str:
    (run,) = project.planned(device, **changes)
    text: str = targets.load("slurm", words).spec(run).text()
    return text


def directives(text: str) -> list[list[str]]:
    """The options of each component."""
    lines = [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH")]
    parts: list[list[str]] = [[]]
    for line in lines:
        if line == "hetjob":
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def test_unlike_nodes_are_components_that_all_have_the_options_of_the_job(project: Project) -> None:
    words = ["partition=gpu", "account=lab", "time=00:30:00"]
    text = text_of(project, words, "cuda", matrix={"layout": ["2+3+3"]})
    first, second = directives(text)
    assert {"--nodes=1", "--gpus-per-node=2"} <= set(first)
    assert {"--nodes=2", "--gpus-per-node=3"} <= set(second)
    of_all = {"--partition=gpu", "--account=lab", "--time=00:30:00", "--no-requeue"}
    assert all(of_all <= set(part) for part in (first, second))
    assert "--het-group=0 --cpus-per-task=2 bash -c 'node 2' : \\\n  --het-group=1 --cpus-per-task=3 bash -c" in text


@pytest.mark.parametrize(
    "options",
    [[f"python={HOSTILE}"], [f"container={HOSTILE}"], [f"container={HOSTILE}", "container_runtime=pyxis"]],
    ids=["python", "container", "pyxis"],
)
def test_hostile_words_are_words_for_the_shell(project: Project, tmp_path: Path, options: list[str]) -> None:
    text = text_of(project, options, matrix={"layout": ["2x1"]})
    script = tmp_path / "job.sbatch"
    script.write_text(text, "utf-8")
    subprocess.run(["bash", "-n", script], check=True)
    line = next(line for line in text.splitlines() if shlex.quote(HOSTILE) in line)
    assert HOSTILE in [word.removeprefix("--container-image=") for word in shlex.split(line.rstrip("\\"))]


def test_a_run_in_a_container_is_started_by_apptainer_or_by_the_plugin_of_srun(project: Project) -> None:
    own = text_of(project, ["container=kit.sif"], "cuda", matrix={"layout": ["1x1"]})
    assert 'apptainer exec --nv --bind "$PWD" --bind "$run" --pwd "$PWD" kit.sif \\\n    python3 -u -m torch.d' in own
    plugin = text_of(project, ["container=lab/kit:1", "container_runtime=pyxis"], matrix={"layout": ["1x1"]})
    assert '--container-image=lab/kit:1 --container-mounts="$PWD:$PWD,$run:$run" --container-workdir="$PWD"' in plugin


def test_the_nodes_without_memory_are_those_that_slurm_names() -> None:
    log = (
        "srun: error: n0: task 0: Out Of Memory\n"
        "slurmstepd-n1: error: Detected 1 oom-kill event(s) in StepId=1.0. Some of your processes\n"
        "srun: error: n2: task 2: Exited with exit code 1\n"
    )
    assert starved(log) == {"n0", "n1"}


def let_commands_do(project: Project, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    """Put commands with the names of Slurm's own before those of this machine."""
    folder = project.root / "slurm's commands"
    folder.mkdir()
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def known(project: Project, monkeypatch: pytest.MonkeyPatch, **printed: str) -> JobState:
    """What is known of a job after it was asked for, where Slurm's commands print these words."""
    let_commands_do(project, monkeypatch, **printed)
    state = JobState("7")
    state.ask()
    return state


HANGS = "exec sleep 600"
UNKNOWN = "job 7: Slurm no longer knows"
FORGOTTEN = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"


@pytest.mark.parametrize(
    ("row", "status", "why"),
    [
        ("CANCELLED by 1000|0:0|n[0-1]|00:10:00", None, "job 7: cancelled"),
        ("TIMEOUT|0:0|n[0-1]|00:10:00", "timed_out", "job 7: Slurm ended the job at its time limit, 00:10:00"),
        ("FAILED|73:0|n0|00:10:00", None, "job 7: a node cannot see the run's folder"),
        ("COMPLETED|0:0|n[0-1]|1", None, "job 7: Slurm reports COMPLETED, but its script did not begin"),
        ("RUNNING|0:0|n[0-1]|1", None, UNKNOWN),
        (None, None, UNKNOWN),
    ],
)
def test_a_job_that_the_queue_has_forgotten_ended_as_the_accounting_says(
    project: Project, make: Make, monkeypatch: pytest.MonkeyPatch, row: str | None, status: str | None, why: str
) -> None:
    disabled = "echo 'Slurm accounting storage is disabled' >&2; exit 1"
    sacct = disabled if row is None else f"echo {shlex.quote(row)}"
    state = known(project, monkeypatch, scontrol=FORGOTTEN, sacct=sacct)
    assert state.has_ended
    folder = make.run(project.results, layout="2x1")
    nodes = [NodeFile(folder, node, state) for node in range(2)]
    found = ends(folder, nodes, state, stopped=False)
    assert [str(node.why).startswith(why) for node in found] == [True, True], found
    assert [(node.code, node.stopped_because) for node in found] == [(None, status)] * 2


def test_a_job_is_not_taken_for_ended_while_slurm_does_not_answer(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(commands.SlurmError, match="Unable to contact slurm controller"):
        known(project, monkeypatch, scontrol="echo 'Unable to contact slurm controller' >&2; exit 1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("queue", "seconds", "left"),
    [
        (HANGS, 1, "squeue did not answer in 1 s: is slurmctld up? scontrol ping: a job may be left behind; list it with "),
        ("exit 0", 600, None),
    ],
)
def test_a_submission_without_an_answer_names_the_job_that_may_be_left(
    project: Project, make: Make, monkeypatch: pytest.MonkeyPatch, queue: str, seconds: float, left: str | None
) -> None:
    monkeypatch.setattr(commands, "SECONDS", 1)
    let_commands_do(project, monkeypatch, sbatch=HANGS, squeue=queue)
    run = project.planned()[0]
    target, folder = targets.load("slurm", None), make.run(project.results)
    handle = target.start(target.spec(run), folder)
    with pytest.raises(OSError, match="sbatch did not answer in 1 s"):
        list(handle.lines())
    monkeypatch.setattr(commands, "SECONDS", seconds)
    handle.stop()
    (only,) = handle.exits
    assert only.why == (left and f"{left}squeue --me --name=kit-{folder.path.name} and end it with scancel")
