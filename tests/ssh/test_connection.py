"""Lost connections to hosts, killed runners, and hosts that fail."""

import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import ssh_hosts
from tests.support.launches import ended, run_once, until
from tests.support.patience import within
from tests.support.projects import Project

pytestmark = [pytest.mark.hosts, pytest.mark.xdist_group("ssh hosts that fail")]
Start = Callable[..., tuple[Any, Path]]
SSH = ("-p", "tcp", "--dport", "22")


@pytest.fixture
def words() -> tuple[str, ...]:
    """Return the options that name hosts which other tests do not use."""
    return ssh_hosts.words(ssh_hosts.DISTURBED)


def require_every_epoch(run: Path, rank: int, *, more_than: int = 60) -> None:
    """Fail if a line of a rank is missing, repeated or out of order."""
    text = (run / "raw" / f"node{rank}-rank{rank}.stdout").read_text()
    epochs = [int(epoch) for epoch in re.findall(r'"epoch_stop".*?"epoch_num": (\d+)', text)]
    assert len(epochs) > more_than
    assert epochs == list(range(1, len(epochs) + 1))


def test_a_connection_that_comes_back_loses_no_line(on_hosts: Project, start: Start) -> None:
    process, run = start("odd-slow", "--layout", "2x1", "--set", "seconds=30")
    until(ssh_hosts.has_printed(run), 60)
    with ssh_hosts.dropped("h3", *SSH):
        time.sleep(14)
    code, stderr = ended(process)
    assert code == 0, stderr
    assert "host h3: the connection was lost" in stderr
    assert "host h3: connected again" in stderr
    record = on_hosts.record(run)
    assert (record["status"], record["events"]["seen"]) == ("completed", record["events"]["expected"])
    require_every_epoch(run, 1, more_than=0)
    assert ssh_hosts.folders_of(run.name) == []


@pytest.mark.alone  # its bound is a promise
def test_a_connection_that_does_not_come_back_leaves_nothing_after_30_s(on_hosts: Project, start: Start) -> None:
    process, run = start("odd-slow", "--layout", "2x1", "--set", "seconds=200")
    until(ssh_hosts.has_printed(run), 60)
    with ssh_hosts.dropped("h3", *SSH):
        until(lambda: ssh_hosts.processes_of(run.name, node="1") == [], 31)
        code, stderr = ended(process)
    assert code == 1, stderr
    record = on_hosts.record(run)
    assert record["status"] in ("failed", "killed")
    assert "host h3" in record["reason"]
    assert ssh_hosts.processes_of(run.name) == []


def test_a_killed_runner_whose_host_did_not_answer_is_recovered_with_all_that_was_printed(
    on_hosts: Project, start: Start
) -> None:
    process, run = start("odd-slow", "--layout", "2x1", "--set", "seconds=200")
    until(ssh_hosts.has_printed(run), 60)
    with ssh_hosts.dropped("h3", *SSH):
        process.kill()
        process.communicate()
        until(lambda: ssh_hosts.processes_of(run.name) == [], 40, every=0.5)
    until(lambda: on_hosts.runner("recover").code == 0, 90, every=2)
    assert on_hosts.record(run)["status"] == "incomplete"
    require_every_epoch(run, 1)
    assert ssh_hosts.folders_of(run.name) == []


def test_a_host_that_cannot_begin_the_run_ends_it_on_the_others(on_hosts: Project, words: tuple[str, ...]) -> None:
    places = [ssh_hosts.own(name) / "begins" for name in ssh_hosts.DISTURBED]
    for place in places:
        place.mkdir()
    (places[1] / "runs").touch()  # a file in place of the folder of runs
    there = ["--on", "ssh", *words, "--with", f"folder={ssh_hosts.OWN}/begins", "--device", "cpu"]
    try:
        with within(20):
            done, record = run_once(on_hosts, "odd-slow", "--layout", "2x1", "--set", "seconds=200", *there)
        assert done.code == 1, done.snapshot
        assert "host h3: " in record["reason"]
        assert ssh_hosts.processes_of(record["launch"]["id"]) == []
        assert list((places[0] / "runs").iterdir()) == []
    finally:
        for place in places:
            shutil.rmtree(place)
