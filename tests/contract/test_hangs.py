"""A run that makes no progress is ended after the agreed time, and it is said which rank the others wait for."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from tests.contract.targets import on
from tests.support.odd import define
from tests.support.projects import patient

if TYPE_CHECKING:
    from tests.contract.harness import Harness

PATIENCE = 6
IN_ALL_REDUCE = r"rank 0 \(node 0\) waits in all_reduce at odd/hangs\.py:\d+ in main"


def hung(harness: Harness, how: str) -> tuple[str, dict[str, Any]]:
    """Carry out a run that hangs; what the screen showed, and the record. It is ended in time."""
    name = define(harness.project, "hangs", name="odd-hangs-not-for-long", patience_seconds=PATIENCE)
    began = time.monotonic()
    done, record = harness.run(name, "--layout", "2x1", "--set", f"how={how}")
    assert time.monotonic() - began < patient(harness.start_seconds + PATIENCE + 45)
    assert (done.code, record["status"]) == (1, "failed")
    assert f"no progress (patience_seconds: {PATIENCE}); nothing was heard for " in record["reason"]
    assert record["outcome"]["stuck"]["quiet_seconds"] < PATIENCE + 15
    assert record["reason"] in done.stderr
    return done.stderr, record


@on("local", "compose", "pytorchjob", "indexed")
def test_a_rank_that_keeps_the_others_waiting_is_named_with_its_last_event_and_its_stack(harness: Harness) -> None:
    screen, record = hung(harness, "sleeps")
    place = r"odd/hangs\.py:\d+ in load_the_next_batch"
    assert re.search(rf": rank 1 \(node 1\) is at {place}; {IN_ALL_REDUCE} for rank 1$", record["reason"])
    failure = record["failure"]
    assert (failure["rank"], failure["node"]) == (1, 1)
    assert re.search(place, failure["last_lines"][0])
    assert failure["last_lines"][0] in screen
    assert re.search(r"event +its last one was train_start, \d+ s before", screen)


@on("local", "compose")
def test_ranks_that_wait_in_different_collectives_are_told_apart(harness: Harness) -> None:
    screen, record = hung(harness, "calls another")
    other = r"rank 1 \(node 1\) waits in broadcast at odd/hangs\.py:\d+ in main"
    assert re.search(rf": the ranks wait in different operations: {IN_ALL_REDUCE}; {other};", record["reason"])
    assert record["failure"]["hint"] == "unequal-collectives"
    assert "unequal-collectives" in screen


@on("local", "compose")
def test_a_rank_that_somebody_stopped_is_named(harness: Harness) -> None:
    _, record = hung(harness, "is stopped")
    assert re.search(rf": rank 1 \(node 1\) is stopped by a signal .*; {IN_ALL_REDUCE} for rank 1$", record["reason"])
    assert record["failure"]["rank"] == 1
