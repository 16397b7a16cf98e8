"""Runs on hosts: the transfer of programs, data and artifacts, and checks."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import ssh_hosts
from tests.support.launches import ended, until
from tests.support.odd import define
from tests.support.patience import within
from tests.support.projects import Project

pytestmark = [pytest.mark.hosts, pytest.mark.xdist_group("ssh hosts")]

ONCE = "brought once"
"""A folder of the hosts that only one test uses."""


@pytest.fixture
def family(on_hosts: Project) -> Iterator[Path]:
    """Yield the empty folder of MNIST's prepared data on this machine, and remove it afterwards."""
    folder = on_hosts.root / "data" / "mnist"
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder)


def brought() -> list[dict[str, int]]:
    """Return the files in the folder of each host, with the times of their last changes."""
    return [
        {str(path): path.stat().st_ctime_ns for path in (ssh_hosts.own(name) / ONCE).glob("*/*/[dmt]*/*.??*")}
        for name in ssh_hosts.NAMES
    ]


def test_programs_and_data_are_brought_once(on_hosts: Project, run: Callable[..., Any], family: Path) -> None:
    name = define(on_hosts, "slow", name="odd-slow-with-data", data=family.name)
    for path in (on_hosts.root / "experiments" / "mnist" / "digits").glob("*.gz"):
        shutil.copy(path, family)
    try:
        found = []
        for _ in range(2):
            done, _ = run(name, "--layout", "2x1", "--with", f"folder={ssh_hosts.OWN}/{ONCE}")
            assert done.code == 0, done.snapshot
            found.append(brought())
        for kind in ("/data/", "/programs/"):
            assert all(any(kind in path for path in paths) for paths in found[0])
        assert found[0] == found[1]
    finally:
        for name in ssh_hosts.NAMES:
            shutil.rmtree(ssh_hosts.own(name) / ONCE, ignore_errors=True)


def test_ctrl_c_does_not_wait_for_the_data_that_are_brought(
    on_hosts: Project, start: Callable[..., Any], family: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (family / "large").write_bytes(os.urandom(60_000_000))
    rsync = tmp_path / "rsync"
    rsync.write_text(f'#!/bin/sh\nexec {shutil.which("rsync")} --bwlimit=300 "$@"\n')
    rsync.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    folders = [ssh_hosts.own(name) / "slowly" for name in ssh_hosts.NAMES]
    try:
        process, run = start("mnist-cpu", "--layout", "2x1", "--with", f"folder={ssh_hosts.OWN}/slowly")
        until(lambda: all(any(folder.glob("data/*/*/.large*")) for folder in folders), 60)
        with within(20):  # the rest of the data would take three minutes
            process.send_signal(signal.SIGINT)
            assert ended(process)[0] == 130
        assert on_hosts.record(run)["status"] == "interrupted"
        assert not ssh_hosts.folders_of(run.name)
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


def test_artifacts_of_all_hosts_are_kept_and_what_no_run_has_used_for_30_days_is_removed(
    on_hosts: Project, run: Callable[..., Any]
) -> None:
    then = time.time() - 31 * 86_400
    left = [ssh_hosts.state("h1") / "cache" / kind / ("0" * 64) for kind in ("programs", "data")]
    for folder in left:
        (folder / "inner").mkdir(parents=True)
        os.utime(folder, (then, then))
    done, record = run("odd-writes", "--layout", "2x1")
    assert done.code == 0, done.snapshot
    artifacts = on_hosts.results / "odd-writes" / record["launch"]["id"] / "artifacts"
    kept = {str(path.relative_to(artifacts)) for path in artifacts.rglob("*") if path.is_file()}
    assert kept == {*(f"rank {rank}.txt" for rank in (0, 1)), "same.txt", "node.txt", "@node1/node.txt", ".hidden"}
    until(lambda: not any(folder.exists() for folder in left), 10)


def test_a_check_runs_on_the_first_host_and_leaves_nothing_there_also_if_it_is_interrupted(on_hosts: Project) -> None:
    def is_there() -> bool:
        return "kit-sent-" in ssh_hosts.inside(ssh_hosts.NAMES[0], "ls", "/tmp")

    check = ("check", "quickstart", "--on", "ssh", *ssh_hosts.WORDS, "--set", "epochs=2")
    done = on_hosts.runner(*check, "--json")
    assert done.code == 0, done.snapshot
    verdict = json.loads(done.stdout)
    assert (verdict["verdict"], verdict["unknown"]) == ("same", [])
    assert not is_there()
    process = on_hosts.start(*check)
    until(is_there, 60)
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 130
    until(lambda: not is_there(), 60)
