"""Runs on hosts give the records that target local gives, with what they need brought once."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import ssh_hosts
from tests.support.launches import ended, run_once, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.projects import Project

pytestmark = [pytest.mark.hosts, pytest.mark.xdist_group("ssh hosts")]
PLACES = ("id", "target", "argv", "started", "runner", "options", "definition_sha256")
SMALL = ("--set", "epochs=2", "--set", "dataset=digits", "--set", "peak_milliseconds=0", "--device", "cpu")


def curve(record: dict[str, Any]) -> list[Any]:
    """The losses and accuracies of a run, bit for bit."""
    epochs = [(one["epoch_num"], one["loss_hex"]) for one in record["epochs"]]
    return [epochs, [(one["loss_hex"], one["accuracy"]) for one in record["evaluations"]]]


def shape(value: Any) -> Any:
    """The names in a record, without its values."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    return [shape(one) for one in value] if isinstance(value, list) else type(value).__name__


@pytest.mark.parametrize("layout", ["1x1", "2x1", "1+2", "2x2"])
def test_the_same_layout_gives_the_loss_curve_of_local_and_a_record_of_its_shape(
    on_hosts: Project, layout: str
) -> None:
    words = ("mnist", "--layout", layout, *SMALL)
    done, there = run_once(on_hosts, *words, "--on", "ssh", *ssh_hosts.WORDS)
    assert done.code == 0, done.snapshot
    _, here = run_once(on_hosts, *words, "--on", "local")
    assert there["status"] == here["status"] == "completed"
    assert curve(there) == curve(here)
    assert curve(here)[0]
    for name in ("metrics", "phases", "events"):
        assert there[name].keys() == here[name].keys()
    for record in (there, here):  # events of the utilization are more in a longer run
        assert record["events"]["seen"] == record["events"]["expected"]
    assert there["launch"]["code"] == here["launch"]["code"]
    assert {name: one for name, one in there["launch"].items() if name not in PLACES} == {
        name: one for name, one in here["launch"].items() if name not in PLACES
    }
    for mine, other in zip(there["ranks"], here["ranks"], strict=True):
        assert [mine.get(name) for name in ("rank", "node", "status")] == [
            other.get(name) for name in ("rank", "node", "status")
        ]
        own = {name: one for name, one in mine["facts"].items() if name not in ("host", "env")}
        assert shape(own) == shape({name: one for name, one in other["facts"].items() if name not in ("host", "env")})
    nodes = there["outcome"]["exits"]
    assert [one["place"]["host"] for one in nodes] == list(ssh_hosts.NAMES[: len(nodes)])
    chosen = [one["facts"]["env"].get("GLOO_SOCKET_IFNAME") for one in there["ranks"]]
    assert set(chosen) == ({None} if len(nodes) == 1 else {"eth0"})
    names = sorted(path.name for path in (on_hosts.runs("mnist")[-2] / "raw").iterdir())
    assert names == sorted(path.name for path in (on_hosts.runs("mnist")[-1] / "raw").iterdir())


def test_repeats_are_interleaved_and_summarised(on_hosts: Project, tmp_path: Path) -> None:
    file = tmp_path / "hosts.txt"
    file.write_text("h0 slots=1\nh1 slots=1\n")
    words = ["--on", "ssh", "--with", f"hosts_file={file}", *ssh_hosts.WORDS[2:], "--only", "layout=1x1,2x1"]
    results = tmp_path / "results"
    done = on_hosts.runner("run", "toy", *words, "--repeat", "3", "--device", "cpu", "--results", results, within=400)
    assert done.code == 0, done.snapshot
    summary = on_hosts.runner("summarize", results)
    assert "2x1" in summary.stdout
    rows = [line.split("|") for line in summary.stdout.splitlines() if line.strip("| ").startswith(("1x1", "2x1"))]
    assert [row[2].strip() for row in rows] == ["3", "3"], summary.stdout


def brought_by(run: Callable[[], Any]) -> list[dict[str, int]]:
    """What lies in the cache of each host after a run, with the time of its last change."""
    done, _ = run()
    assert done.code == 0, done.snapshot
    return [
        {str(path): path.stat().st_ctime_ns for path in (ssh_hosts.state(name) / "cache").glob("*/*/[dmt]*/*.??*")}
        for name in ssh_hosts.NAMES
    ]


def test_programs_and_data_are_brought_once(on_hosts: Project, run: Callable[..., Any]) -> None:
    family = on_hosts.root / "data" / "mnist"
    had = family.exists()
    if not had:
        digits = on_hosts.root / "experiments" / "mnist" / "digits"
        family.mkdir(parents=True)
        for path in digits.glob("*.gz"):
            shutil.copy(path, family)
    try:
        first, again = (brought_by(lambda: run("mnist-cpu", "--layout", "2x1", *SMALL[:-2])) for _ in range(2))
        assert all(any("/data/" in path for path in one) and any("/programs/" in path for path in one) for one in first)
        assert first == again
    finally:
        if not had:
            shutil.rmtree(family)


def test_a_run_that_was_interrupted_is_resumed_as_one_record_with_two_attempts(
    on_hosts: Project, start: Callable[..., Any]
) -> None:
    process, run = start("odd-slow", "--layout", "2x1", "--set", "seconds=6")
    until(lambda: any((run / "raw").rglob("stdout.log")), 60)
    process.terminate()
    assert ended(process, 60)[0] == 130
    done = on_hosts.runner("resume", run)
    assert done.code == 0, done.snapshot
    record = on_hosts.record(run)
    assert (record["status"], len(record["launch"]["attempts"])) == ("completed", 1)
    assert ssh_hosts.folders_of(run.name) == []


def test_an_argument_that_a_shell_would_read_arrives_as_it_is(on_hosts: Project, run: Callable[..., Any]) -> None:
    on_hosts.program(
        "odd.echo",
        """
        import os
        from argparse import ArgumentParser

        from trainkit.event_log import EventLog


        def main():
            parser = ArgumentParser()
            parser.add_argument("--words", default="")
            args = parser.parse_args()
            log = EventLog(int(os.environ["RANK"]))
            log.start("run_start", host="here")
            print(ascii(args.words), flush=True)
            log.point("tracked_stats", {"train_seconds": 1.0})
            log.stop("run_stop", status="success", total_seconds=1.0)


        if __name__ == "__main__":
            main()
        """,
    )
    words = 'it\'s "$(touch /tmp/x)" `id` ; ${local_rank} 目 \\ *'
    on_hosts.define(name="echo", program="odd.echo", args={"words": words}, matrix={"layout": ["1x1"]})
    done, record = run("echo")
    assert done.code == 0, done.snapshot
    printed = on_hosts.results / "echo" / record["launch"]["id"] / "raw" / "node0-rank0.stdout"
    assert ascii(words) in printed.read_text().splitlines()
