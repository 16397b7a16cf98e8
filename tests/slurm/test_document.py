"""The commands of docs/clusters.md on a real Slurm."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.contract.harness import Jobs
from tests.support.jobs import slurm
from tests.support.launches import until
from tests.support.projects import RUNNER, Ended, complete

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]
DOCUMENT = Path(__file__).parents[2] / "docs" / "clusters.md"


def commands(section: str) -> list[str]:
    """Return the commands in the code blocks below a heading of the document."""
    text = re.split(r"\n#+ ", DOCUMENT.read_text("utf-8").partition(f"\n{section}\n")[2])[0]
    return re.findall(r"(?m)^(?:KIT_\w+=\S+ )?(?:runner|sbatch) .*", "".join(text.split("```")[1::2]))


def typed(harness: Jobs, command: str) -> Ended:
    env = harness.project.environment()
    env["PATH"] = f"{Path(RUNNER).parent}:{env['PATH']}"
    done = complete(["sh", "-c", command], harness.project.root, env)
    assert done.code == 0, done.stderr
    return done


def test_the_run_of_the_document_is_as_it_says(harness: Jobs) -> None:
    (command,) = commands("## Slurm")
    done = typed(harness, command)
    for line in (r"run 1/1  2x1  repeat 1  results/toy/\S+-slurm-\S+", r"job \d+ is submitted", r"✓ 2x1  repeat 1 .*"):
        assert re.search(f"(?m)^{line}$", done.stderr), done.stderr


def test_a_committed_script_is_submitted_by_hand_and_collected_afterwards(harness: Jobs) -> None:
    project = harness.project
    environment = project.root / ".venv"
    if not environment.exists():
        environment.symlink_to(Path(sys.executable).parent.parent)
    before = set(project.results.glob("toy/*"))
    submit, collect = commands("### Slurm by hand")
    typed(harness, submit)
    until(lambda: not slurm("squeue", "--noheader", "--name=kit-toy-multinode").strip(), 10)
    collected = typed(harness, collect)
    (line,) = collected.stdout.splitlines()  # only this run, not a runner's runs of the same cell
    assert re.fullmatch(r"results/toy/\S+-slurm-[0-9a-f]{8}: completed", line)
    run = project.root / line.partition(":")[0]
    assert run not in before
    assert project.runner(*shlex.split(collect)[1:]).stdout == collected.stdout
    record = project.record(run)
    assert record["launch"]["by_hand"]
    assert record["metrics"]["final_loss"] > 0
