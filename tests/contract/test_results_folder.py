"""On every target, a run is ended if the disk of its results fills up or its folder is removed."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.harness import Harness, Hosts
from tests.contract.targets import on
from tests.contract.test_ends import ALL_BUT_INDEXED, LONG
from tests.support.launches import ended, until


@pytest.fixture
def small_disk(harness: Harness) -> Iterator[None]:
    """Mount a disk of 2 MB for the results."""
    harness.project.results.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=777", "kit-small", str(harness.project.results)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk needs root and mount")
    yield
    subprocess.run(["umount", "--lazy", str(harness.project.results)], check=True)


def running(harness: Harness, run: Path) -> list[Any]:
    """Return what is left of a run, except files on a host that did not fit here."""
    return harness.processes(run) if isinstance(harness, Hosts) else harness.left(run)


@pytest.mark.usefixtures("small_disk")
@on(*ALL_BUT_INDEXED)
def test_a_disk_that_fills_up_ends_the_run_and_its_record_is_kept(harness: Harness) -> None:
    process, run = harness.start("odd-says", "--layout", "2x1", "--set", "seconds=600", "--set", "pause=0")
    code, stderr = ended(process)
    record = harness.project.record(run)
    assert (code, record["status"]) == (1, "failed")
    assert "is full" in record["reason"], (record["reason"], stderr)
    assert "is full" in stderr
    until(lambda: running(harness, run) == [], 90, every=0.5)


@on(*ALL_BUT_INDEXED)
def test_a_folder_that_is_moved_away_ends_the_run(harness: Harness) -> None:
    process, run = harness.start("odd-slow", "--layout", "2x1", *LONG)
    until(harness.have_begun(run, 2), 90)
    run.rename(run.with_name("moved"))
    code, stderr = ended(process)
    assert code == 1
    assert "is gone" in stderr
    until(lambda: running(harness, run) == [], 90, every=0.5)
    assert harness.project.runner("collect", run.with_name("moved")).code == 0
    assert harness.project.record(run.with_name("moved"))["status"] == "incomplete"
