"""A run without progress is ended after `patience_seconds`, and the rank that the others wait for is named."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.harness import SINCE, Harness
from tests.contract.targets import on
from tests.contract.test_ends import interrupted
from tests.support.containers import docker, running_of
from tests.support.launches import shown
from tests.support.odd import define
from tests.support.patience import patient, within

IN_ALL_REDUCE = r"rank 0 \(node 0\) waits in all_reduce at odd/hangs\.py:\d+ in main"


def hung(harness: Harness, how: str) -> tuple[str, dict[str, Any]]:
    """Carry out a run that hangs and is ended in time; return stderr and the record."""
    patience = round(patient(6))
    name = define(harness.project, "hangs", name="odd-hangs-not-for-long", patience_seconds=patience)
    with within(harness.start_seconds + 6 + 45):
        done, record = harness.run(name, "--layout", "2x1", "--set", f"how={how}")
    assert (done.code, record["status"]) == (1, "failed")
    assert f"patience_seconds: {patience}" in record["reason"]
    assert late(record) < patient(15)
    assert record["reason"] in done.stderr
    return done.stderr, record


def late(record: dict[str, Any]) -> float:
    """Return the seconds from the end of the patience to the detection of the hang."""
    return float(record["outcome"]["stuck"]["quiet_seconds"]) - float(record["launch"]["patience_seconds"])


@on("local", "compose", "pytorchjob", "ssh", "slurm", soon=True)
def test_a_rank_that_keeps_the_others_waiting_is_named_with_its_last_event_and_its_stack(harness: Harness) -> None:
    screen, record = hung(harness, "sleeps")
    place = r"odd/hangs\.py:\d+ in load_the_next_batch"
    assert re.search(rf": rank 1 \(node 1\) is at {place}; {IN_ALL_REDUCE} for rank 1$", record["reason"])
    failure = record["failure"]
    assert (failure["rank"], failure["node"]) == (1, 1)
    assert re.search(place, failure["last_lines"][0])
    assert failure["last_lines"][0] in screen
    assert "train_start" in screen


@on("local")
def test_ranks_that_wait_in_different_collectives_are_told_apart(harness: Harness) -> None:
    screen, record = hung(harness, "calls another")
    other = r"rank 1 \(node 1\) waits in broadcast at odd/hangs\.py:\d+ in main"
    assert re.search(rf": the ranks wait in different operations: {IN_ALL_REDUCE}; {other};", record["reason"])
    assert record["failure"]["hint"] == "unequal-collectives"
    assert "unequal-collectives" in screen


@on("local", series=("ssh",))
def test_a_rank_that_somebody_stopped_is_named(harness: Harness) -> None:
    _, record = hung(harness, "is stopped")
    assert re.search(rf": rank 1 \(node 1\) is stopped by a signal .*; {IN_ALL_REDUCE} for rank 1$", record["reason"])
    assert record["failure"]["rank"] == 1


def cut_off_the_network(names: list[str], project: str) -> None:
    docker("network", "disconnect", f"{project}_default", names[1])


def drop_what_goes_to_node_0(names: list[str], project: str) -> None:
    del project
    pid = docker("inspect", "--format", "{{.State.Pid}}", names[1]).strip()
    rule = ["iptables", "-A", "OUTPUT", "-p", "tcp", "--dport", "29500", "-j", "DROP"]
    subprocess.run(["nsenter", "--target", pid, "--net", *rule], check=True)


@pytest.mark.parametrize(
    ("injure", "says"),
    [
        (cut_off_the_network, "node 1 has not joined: it cannot reach node 0"),
        (drop_what_goes_to_node_0, "node 1 has not joined: it cannot reach .* at node0:29500 .* firewall"),
    ],
)
@on("compose")
def test_a_fault_between_the_nodes_is_explained_while_the_rendezvous_waits(
    harness: Harness, injure: Callable[[list[str], str], None], says: str
) -> None:
    if injure is drop_what_goes_to_node_0 and (os.geteuid() or not shutil.which("nsenter")):
        pytest.skip("a firewall in a container's network needs root and nsenter")
    process, run = harness.start("odd-hangs", "--layout", "2x1")
    project = f"kit-{run.name.lower()}"
    injure(running_of(project, 2), project)
    waits = shown(process, re.compile(f"{SINCE}(.*\n  )*({says})"))
    assert int(waits["seconds"]) < patient(15)
    _, record = interrupted(harness, process, run)
    assert re.search(says, record["reason"])
