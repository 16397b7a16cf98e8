"""A real Slurm: the commands of the documents do what they say."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.harness import Jobs
from tests.support.jobs import slurm
from tests.support.launches import until
from tests.support.projects import RUNNER

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]
DOCUMENT = Path(__file__).parents[2] / "docs" / "clusters.md"


def commands(section: str) -> list[str]:
    """Return the commands below a heading of the document, as somebody types them."""
    text = re.split(r"\n#+ ", DOCUMENT.read_text("utf-8").partition(f"\n{section}\n")[2])[0]
    blocks = re.findall(r"^```\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [
        line for block in blocks for line in block.splitlines() if re.match(r"(KIT_\w+=\S+ )?(runner|sbatch) ", line)
    ]


def typed(harness: Jobs, command: str) -> subprocess.CompletedProcess[str]:
    project = harness.project
    env = project.environment({"PATH": f"{Path(RUNNER).parent}:{project.environment()['PATH']}"})
    return subprocess.run(command, shell=True, cwd=project.root, env=env, capture_output=True, text=True, check=False)


def test_the_run_of_the_document_is_as_it_says(harness: Jobs) -> None:
    (command,) = commands("## Slurm")
    done = typed(harness, command)
    assert done.returncode == 0, done.stderr
    said = [r"run 1/1  2x1  repeat 1  results/toy/\S+-slurm-\S+", r"job \d+ is submitted", r"✓ 2x1  repeat 1 .*"]
    for line in said:
        assert re.search(f"(?m)^{line}$", done.stderr), done.stderr
        assert re.search(f"(?m)^{line}$", DOCUMENT.read_text("utf-8"))


def test_a_committed_script_is_submitted_by_hand_and_collected_afterwards(harness: Jobs) -> None:
    project = harness.project
    environment = project.root / ".venv"
    if not environment.exists():
        environment.symlink_to(Path(sys.executable).parent.parent)
    before = {str(path.relative_to(project.root)) for path in project.results.glob("toy/*")}
    submit, collect = commands("### Slurm by hand")
    submitted = typed(harness, submit)
    assert submitted.returncode == 0, submitted.stderr
    until(lambda: not slurm("squeue", "--noheader", "--name=kit-toy-multinode").strip(), 10)
    collected = typed(harness, collect)
    assert collected.returncode == 0, collected.stderr
    (line,) = collected.stdout.splitlines()  # and nothing of the runs of the same cell that a runner has made
    assert re.fullmatch(r"results/toy/\S+-slurm-[0-9a-f]{8}: completed", line)
    assert line.partition(":")[0] not in before
    assert project.runner(*shlex.split(collect)[1:]).stdout == collected.stdout
    record = project.record(project.root / line.partition(":")[0])
    assert record["launch"]["by_hand"]
    assert record["metrics"]["final_loss"] > 0
