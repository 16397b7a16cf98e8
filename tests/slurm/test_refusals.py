"""What Slurm refuses, and what a node cannot see: one line with the reason and the way out."""

import subprocess
from pathlib import Path

import pytest

from tests.contract.harness import Jobs
from tests.support.projects import RUNNER

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]
ON = ("--on", "slurm", "--device", "cpu")
REFUSED = {
    "partition=nope": "Invalid partition name specified",
    "partition=lab": "account",
    "time=soon": "time",
    "partition=$(touch pwned);`touch pwned`#x": "Invalid partition name specified",
}


@pytest.mark.parametrize("option", REFUSED)
def test_what_slurm_refuses_is_one_line_with_its_reason_before_anything_is_started(harness: Jobs, option: str) -> None:
    before = set(harness.project.results.glob("*/*"))
    done = harness.project.runner("run", "odd-slow", *ON, "--layout", "2x1", "--with", option)
    assert done.code == 2
    assert REFUSED[option] in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert set(harness.project.results.glob("*/*")) == before
    assert not list(harness.project.root.glob("pwned"))


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
    """A disk that only the login node has mounted."""
    project = harness.project
    own = ["unshare", "--mount", "--propagation", "private"]
    if subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a mount that others do not see needs root")
    mounted = ["sh", "-ec", MOUNTED, "sh", str(tmp_path), what, str(project.root)]
    run = [RUNNER, "run", "odd-slow", *ON, "--layout", "2x1", "--repeat", "1", "--results", str(tmp_path / "results")]
    done = subprocess.run(
        [*own, *mounted, *run], cwd=project.root, env=project.environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert f"a node cannot see {UNSEEN[what]}" in done.stderr
    assert "Traceback" not in done.stderr
