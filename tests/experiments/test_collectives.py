"""The operations of torch.distributed and the network, on the Gloo backend."""

from pathlib import Path
from typing import Any

import pytest

from experiments.collectives.operations import OPERATIONS
from tests.experiments.conftest import Launch, good, start

QUICK = ("--max-bytes", "4096", "--rounds", "2", "--calls", "2")
PING = ("--round-trips", "9", "--messages", "2", "--message-bytes", "65536")
LACKING = {"reduce_scatter", "all_to_all"}
"""Gloo of torch 2.3 supports these for one tensor only; later versions may support them."""
AFTER = {  # on rank 1 of 3, written by hand
    "send": [2],
    "isend": [1, 2],
    "broadcast": [1, 2],
    "scatter": [1, 1],
    "all_gather": [1, 2, 3, 4, 5, 6],
    "all_gather_into_tensor": [1, 2, 3, 4, 5, 6],
    "all_reduce": [9, 12],
    "ring_all_reduce": [9, 12],
    "reduce_scatter_tensor": [15, 18],
    "all_to_all_single": [2, 3, 8, 9, 14, 15],
}
ON_RANK_0 = {"gather": [1, 2, 3, 4, 5, 6], "reduce": [9, 12], "scatter": [0, 0]}


@pytest.mark.parametrize("world", [None, 3])
def test_every_operation_is_shown_or_reported_as_unsupported(plain: Launch, world: int | None) -> None:
    ended = good(plain("collectives.measure", world, *QUICK))
    told = {event["value"]: event["metadata"] for event in ended.all("lesson") if event["metadata"]["rank"] == 0}
    assert list(told) == list(OPERATIONS)
    unsupported = {name for name, lesson in told.items() if lesson["outcome"] == "unsupported"}
    alone = {name for name in OPERATIONS if OPERATIONS[name].least_ranks > (world or 1)}
    assert alone <= unsupported <= alone | LACKING
    assert all(told[name]["why"] for name in unsupported)
    assert set(ended.values("collective")) == set(OPERATIONS) - unsupported


def test_each_operation_gives_what_arithmetic_says(plain: Launch) -> None:
    ended = plain("collectives.measure", 3, *QUICK)
    for rank, expected in enumerate((ON_RANK_0, AFTER)):
        lessons = [event for event in ended.all("lesson") if event["metadata"]["rank"] == rank]
        seen = {event["value"]: event["metadata"].get("after") for event in lessons}
        assert {name: seen[name] for name in expected} == expected
    assert b"after all_reduce  Rank  1  has data  tensor([9, 12])\n" in ended.stdout


def test_bandwidths_are_those_of_nccl_tests(plain: Launch) -> None:
    ended = plain("collectives.measure", 3, *QUICK)
    factors = {"all_reduce": 4 / 3, "ring_all_reduce": 4 / 3, "broadcast": 1, "reduce": 1, "send": 1, "isend": 1}
    rows = [event["metadata"] | {"name": event["value"]} for event in ended.all("collective")]
    for row in rows:
        if row["name"] == "barrier":
            continue
        assert row["algorithm_bytes_per_second"] == pytest.approx(row["bytes"] / row["seconds"])
        factor = factors.get(row["name"], 2 / 3)  # others have (n - 1) / n of the total size
        assert row["bus_bytes_per_second"] == pytest.approx(factor * row["algorithm_bytes_per_second"])
    small, large = [row for row in rows if row["name"] == "all_reduce"]
    assert (small["bytes"], large["bytes"]) == (1024, 4096)
    assert ended.stats["all_reduce_seconds"] == large["seconds"]
    assert ended.stderr.count("\n") > len(rows)
    assert [row["bytes"] for row in rows if row["name"] == "all_gather"] == [1020, 4092]  # 3 equal parts


def test_the_ring_gives_what_the_library_gives_for_any_size() -> None:
    ended = good(start([str(Path(__file__).parent / "ring_against_library.py")], 5))
    assert sorted(ended.stdout.decode().splitlines()) == [f"rank {rank} of 5: equal" for rank in range(5)]


@pytest.mark.parametrize(
    ("program", "world", "words", "text"),
    [("measure", 2, ("--max-bytes", str(10**15)), "2 of 2 ranks"), ("network", None, (), "needs 2 ranks")],
)
def test_impossible_measurements_are_refused(
    plain: Launch, program: str, world: int | None, words: Any, text: str
) -> None:
    ended = plain(f"collectives.{program}", world, *words)
    assert text in ended.error
    assert ended.told("run_stop", "status") == ["aborted"] * (world or 1)


def test_the_network_is_measured_both_ways_between_all_pairs(plain: Launch) -> None:
    ended = good(plain("collectives.network", 3, *PING))
    rows = {event["value"]: event["metadata"] for event in ended.all("network")}
    assert set(rows) == {f"{a} -> {b}" for a in range(3) for b in range(3) if a != b}
    assert all(row["latency_seconds"] <= row["latency_p99_seconds"] for row in rows.values())
    for name, worst in (("round_trip_seconds", max), ("bytes_per_second", min)):
        assert ended.stats[name] == worst(row[name] for row in rows.values()) > 0
