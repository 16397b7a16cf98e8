"""Batch scripts, and the output of Slurm's commands, without a Slurm."""

import os
import re
import shlex
import subprocess
from typing import Any

import pytest

from runner import targets
from runner.core.errors import RequestError
from runner.execution import by_hand
from runner.targets.slurm import commands
from runner.targets.slurm.ends import NodeFile, ends, starved
from runner.targets.slurm.watch import JobState
from tests.support.projects import Project
from tests.support.records import Make

HOSTILE = 'a\'b "c" $(touch pwned) `touch pwned` \\ ;&| #{x} %j é'


def text_of(project: Project, words: list[str] | None = None, device: str = "cpu", **changes: Any) -> str:
    run = project.planned(device, **changes)[0]
    text: str = targets.load("slurm", words).spec(run).text()
    return text


def test_unlike_nodes_are_components_that_all_have_the_options_of_the_job(project: Project) -> None:
    of_all = {"--partition=gpu", "--account=lab", "--time=00:30:00", "--no-requeue"}
    words = ["partition=gpu", "account=lab", "time=00:30:00"]
    text = text_of(project, words, "cuda", matrix={"layout": ["2+3+3"]})
    first, second = (set(re.findall("(?m)^#SBATCH (.*)", part)) for part in text.split("#SBATCH hetjob"))
    assert of_all | {"--nodes=1", "--gpus-per-node=2"} <= first
    assert of_all | {"--nodes=2", "--gpus-per-node=3"} <= second
    assert "--het-group=0 --cpus-per-task=2 bash -c 'node 2' : \\\n  --het-group=1 --cpus-per-task=3 bash -c" in text


@pytest.mark.parametrize(
    "options",
    [[f"python={HOSTILE}"], [f"container={HOSTILE}"], [f"container={HOSTILE}", "container_runtime=pyxis"]],
)
def test_hostile_words_are_words_for_the_shell(project: Project, options: list[str]) -> None:
    text = text_of(project, options)
    subprocess.run(["bash", "-n"], input=text.encode(), check=True)
    line = next(line for line in text.splitlines() if shlex.quote(HOSTILE) in line)
    assert HOSTILE in [word.removeprefix("--container-image=") for word in shlex.split(line.rstrip("\\"))]


def test_a_run_in_a_container_is_started_by_apptainer_or_by_the_plugin_of_srun(project: Project) -> None:
    own = text_of(project, ["container=kit.sif"], "cuda")
    assert 'apptainer exec --nv --bind "$PWD" --bind "$run" --pwd "$PWD" kit.sif \\\n    python3 -u -m torch.d' in own
    plugin = text_of(project, ["container=lab/kit:1", "container_runtime=pyxis"])
    assert '--container-image=lab/kit:1 --container-mounts="$PWD:$PWD,$run:$run" --container-workdir="$PWD"' in plugin


def test_the_nodes_without_memory_are_those_that_slurm_names() -> None:
    log = (
        "srun: error: n0: task 0: Out Of Memory\n"
        "slurmstepd-n1: error: Detected 1 oom-kill event(s) in StepId=1.0. Some of your processes\n"
        "srun: error: n2: task 2: Exited with exit code 1\n"
    )
    assert starved(log) == {"n0", "n1"}


def let_commands_do(project: Project, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    """Put commands with the names of Slurm's before those of this machine."""
    for name, text in scripts.items():
        (project.root / name).write_text(f"#!/bin/sh\n{text}\n")
        (project.root / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{project.root}{os.pathsep}{os.environ['PATH']}")


HANGS = "exec sleep 600"
UNKNOWN = "Slurm no longer knows"
FORGOTTEN = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"


@pytest.mark.parametrize(
    ("row", "status", "why"),
    [
        ("CANCELLED by 1000|0:0|n[0-1]|00:10:00", None, "cancelled"),
        ("TIMEOUT|0:0|n[0-1]|00:10:00", "timed_out", "Slurm ended the job at its time limit, 00:10:00"),
        ("FAILED|73:0|n0|00:10:00", None, "a node cannot see the run's folder"),
        ("COMPLETED|0:0|n[0-1]|1", None, "Slurm reports COMPLETED"),
        ("RUNNING|0:0|n[0-1]|1", None, UNKNOWN),
        (None, None, UNKNOWN),
    ],
)
def test_a_job_that_the_queue_has_forgotten_ended_as_the_accounting_says(
    project: Project, make: Make, monkeypatch: pytest.MonkeyPatch, row: str | None, status: str | None, why: str
) -> None:
    sacct = "echo 'Slurm accounting storage is disabled' >&2; exit 1" if row is None else f"echo '{row}'"
    let_commands_do(project, monkeypatch, scontrol=FORGOTTEN, sacct=sacct)
    state = JobState("7")
    state.ask()
    assert state.has_ended
    folder = make.run(project.results)
    (found,) = ends(folder, [NodeFile(folder, 0, state)], state, stopped=False)
    assert (found.code, found.stopped_because) == (None, status)
    assert why in str(found.why)


def test_a_job_by_hand_is_collected_when_it_has_ended(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    run = project.results / "tiny" / "20261121T000000Z-slurm-00000007"
    script = run / "request" / "job.sbatch"
    script.parent.mkdir(parents=True)
    (run / "raw").mkdir()
    script.write_text(text_of(project))
    for scontrol, why in (("echo down >&2; exit 1", "job 7: down"), ("echo JobState=RUNNING", "job 7 still runs")):
        let_commands_do(project, monkeypatch, scontrol=scontrol)
        with pytest.raises(RequestError, match=why):
            list(by_hand.collect_batch(script, project.root, project.results))
    let_commands_do(project, monkeypatch, scontrol="echo JobState=CANCELLED")
    ((_, record),) = by_hand.collect_batch(script, project.root, project.results)
    assert (record.status, "not by this runner" in str(record.reason)) == ("killed", True)


@pytest.mark.slow
@pytest.mark.parametrize(("queue", "seconds", "left"), [(HANGS, 1, "squeue did not answer"), ("exit 0", 600, None)])
def test_a_submission_without_an_answer_names_the_job_that_may_be_left(
    project: Project, make: Make, monkeypatch: pytest.MonkeyPatch, queue: str, seconds: float, left: str | None
) -> None:
    monkeypatch.setattr(commands, "SECONDS", 1)
    let_commands_do(project, monkeypatch, sbatch=HANGS, squeue=queue)
    target, folder = targets.load("slurm", None), make.run(project.results)
    handle = target.start(target.spec(project.planned()[0]), folder)
    with pytest.raises(OSError, match="sbatch did not answer"):
        list(handle.lines())
    monkeypatch.setattr(commands, "SECONDS", seconds)
    handle.stop()
    (only,) = handle.exits
    assert only.why == left or re.match(f"{left}.* squeue --me --name=kit-{folder.path.name} ", str(only.why))
