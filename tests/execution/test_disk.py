"""A disk that fills up while a run completes; tests/faults has the failures."""

from pathlib import Path

import pytest

from runner.execution.disk import what_is_lost
from tests.support.launches import BEGINNING, END, one_run
from tests.support.projects import RUNNER, Ended, Project, complete

pytestmark = pytest.mark.real_processes

MOUNT = 'mount -t tmpfs -o size=2m tmpfs results && "$@"; code=$?; cp -r results/. kept; exit $code'
TRIED = complete(["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"])
needs_a_small_disk = pytest.mark.skipif(TRIED.code != 0, reason="this system lets nobody mount a small disk (unshare)")


def run_on_a_small_disk(project: Project) -> Ended:
    """Run with the results on a disk of 2 MB, which is copied to `kept` in the end."""
    for name in ("results", "kept"):
        (project.root / name).mkdir()
    command = ["unshare", "-rm", "sh", "-c", MOUNT, "sh", RUNNER, "run", "tiny"]
    return complete(command, project.root, project.environment())


@pytest.mark.slow
@needs_a_small_disk
def test_a_run_that_ends_well_on_a_disk_that_another_fills_is_recorded_as_completed(project: Project) -> None:
    fill = """
    with open(os.path.join(os.environ["KIT_ARTIFACTS"], "..", "..", "..", "filler"), "wb", 0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    """
    one_run(project, BEGINNING + END + fill.replace("\n    ", "\n"), "1x1")
    done = run_on_a_small_disk(project)
    assert done.code == 0, done.stderr
    (record,) = (project.root / "kept" / "tiny").glob("*/run.json")
    assert project.record(record.parent)["status"] == "completed"


def test_a_folder_that_can_be_written_is_not_lost_and_a_read_only_one_is(tmp_path: Path) -> None:
    assert what_is_lost(tmp_path) is None
    assert "is gone" in str(what_is_lost(tmp_path / "nowhere"))
    assert "read-only" in str(what_is_lost(Path("/proc/sys")))
