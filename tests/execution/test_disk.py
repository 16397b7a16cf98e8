"""The disk fills up, or the results go away, in the middle of a run."""

import shutil
from pathlib import Path

import pytest

from runner.execution.disk import what_is_lost
from tests.support.launches import BEGINNING, END, WAIT, ended, nothing_is_left_of, one_run, until, words_are_printed
from tests.support.projects import RUNNER, Ended, Project, complete

pytestmark = pytest.mark.real_processes

FILL_AND_GO_ON = """
try:
    for number in range(400):
        print("x" * 10_000, flush=True)
except OSError:
    pass
time.sleep(600)
"""
MOUNT = 'mount -t tmpfs -o size=2m tmpfs results && "$@"; code=$?; cp -r results/. kept; exit $code'
TRIED = complete(["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"])
needs_a_small_disk = pytest.mark.skipif(TRIED.code != 0, reason="this system lets nobody mount a small disk (unshare)")


def run_on_a_small_disk(project: Project) -> Ended:
    """Run on a disk of 2 MB, which is copied to `kept` before it goes."""
    for name in ("results", "kept"):
        (project.root / name).mkdir()
    command = ["unshare", "-rm", "sh", "-c", MOUNT, "sh", RUNNER, "run", "tiny"]
    return complete(command, project.root, project.environment())


@pytest.mark.slow
@needs_a_small_disk
def test_a_disk_that_fills_up_is_said_and_the_record_is_kept(project: Project) -> None:
    project.program("toys.ok", BEGINNING + FILL_AND_GO_ON + END)
    project.define(matrix={"layout": ["1x1", "1x2"]}, repeat=2)
    done = run_on_a_small_disk(project)
    assert (done.code, done.stdout) == (1, ""), done.stderr
    assert "failed: the disk of results/tiny/" in done.stderr
    assert done.stderr.splitlines()[-1] == "error: the disk of results is full; the further runs are not started"
    assert "Traceback (most recent call last)" not in done.stderr.split("✗")[0]
    (run,) = (project.root / "kept" / "tiny").iterdir()
    record = project.record(run)
    assert record["status"] == "failed"
    assert record["reason"].endswith("is full")
    assert record["outcome"]["stopped_because"] == record["reason"]
    assert (run / "raw" / "node0-rank0.stdout").stat().st_size > 500_000
    assert [path.name for path in run.rglob(".*")] == []
    assert nothing_is_left_of(run)


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


@pytest.mark.slow
def test_a_run_s_folder_that_is_removed_is_said_and_the_processes_end(project: Project) -> None:
    one_run(project, BEGINNING + WAIT, "1x2", repeat=3)
    process = project.start("run", "tiny")
    until(words_are_printed(project, "waits", 2))
    (run,) = project.runs()
    shutil.rmtree(run)
    code, stderr = ended(process)
    assert code == 1, stderr
    assert f"✗ 1x2  repeat 1  failed: its record could not be written: results/tiny/{run.name} is gone: " in stderr
    assert "Traceback" not in stderr
    assert "defect" not in stderr
    assert not run.exists()
    assert nothing_is_left_of(run)


def test_a_folder_that_can_be_written_is_not_lost_and_a_read_only_one_is(tmp_path: Path) -> None:
    assert what_is_lost(tmp_path) is None
    assert "is gone" in str(what_is_lost(tmp_path / "nowhere"))
    assert "read-only" in str(what_is_lost(Path("/proc/sys")))
