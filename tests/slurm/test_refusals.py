"""What Slurm refuses, and what a node cannot see."""

import subprocess
from pathlib import Path

import pytest

from tests.contract.harness import Jobs
from tests.support.projects import RUNNER, complete

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]
ON = ("--on", "slurm", "--device", "cpu", "--layout", "2x1", "--repeat", "1")
REFUSED = {
    "partition=nope": "Invalid partition name specified",
    "partition=lab": "account",
    "partition=$(touch pwned);`touch pwned`#x": "Invalid partition name specified",
}


@pytest.mark.parametrize("option", REFUSED)
def test_what_slurm_refuses_is_one_line_with_its_reason_before_anything_is_started(harness: Jobs, option: str) -> None:
    project = harness.project
    before = set(project.results.glob("*/*"))
    assert REFUSED[option] in project.refused("run", "odd-slow", *ON, "--with", option)
    assert set(project.results.glob("*/*")) == before
    assert not list(project.root.glob("pwned"))


UNSEEN = {"project": "the folder that the job was submitted from", "results": "the run's folder"}
MOUNTED = """
mount -t tmpfs none "$1"
[ "$2" = results ] || { cp -r "$3" "$1/project"; cd "$1/project"; }
shift 3
exec "$@"
"""


@pytest.mark.parametrize("what", UNSEEN)
def test_a_folder_that_the_nodes_do_not_see_is_named_and_the_run_has_failed(
    harness: Jobs, what: str, tmp_path: Path
) -> None:
    # Mount a disk that only this process and its children see.
    project = harness.project
    own = ["unshare", "--mount", "--propagation", "private"]
    if subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a mount that others do not see needs root")
    mounted = ["sh", "-ec", MOUNTED, "sh", str(tmp_path), what, str(project.root)]
    run = [RUNNER, "run", "odd-slow", *ON, "--results", str(tmp_path / "results")]
    done = complete([*own, *mounted, *run], project.root, project.environment())
    assert done.code == 1, done.stderr
    assert f"a node cannot see {UNSEEN[what]}" in done.stderr
    assert "Traceback" not in done.stderr
