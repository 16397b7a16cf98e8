"""Shares of a batch: measured, parsed and refused, and the quotas that limit them."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainkit import sharding
from trainkit.balance import PARTS, in_ratio, parse, relative
from trainkit.errors import Refusal
from trainkit.machine import usable_cores
from trainkit.throttling import quota_cores

ALL = len(os.sched_getaffinity(0))
SHARES = st.lists(st.integers(1, 10**9), min_size=1, max_size=12)
COSTS = st.lists(st.floats(1e-5, 1e3), min_size=1, max_size=12)


@given(st.integers(0, 700), SHARES)
def test_every_rank_gets_its_share_and_at_least_one_sample_if_there_are_enough(count: int, shares: list[int]) -> None:
    found = [len(sharding.shard(count, rank, len(shares), shares)) for rank in range(len(shares))]
    if count >= len(shares):
        assert min(found) >= 1
    if min(count * share / sum(shares) for share in shares) >= 1:
        for size, share in zip(found, shares, strict=True):
            assert abs(size - count * share / sum(shares)) < 1 + 1e-9


@given(st.integers(1, 300), st.integers(1, 200), SHARES)
def test_shares_that_change_lose_no_sample(count: int, size: int, shares: list[int]) -> None:
    now = shares
    slices = [sharding.rank_slices(count, size, rank, len(shares), lambda: now) for rank in range(len(shares))]
    seen: list[int] = []
    for of_ranks in zip(*slices, strict=True):
        seen += [position for part, _ in of_ranks for position in part]
        now = [*now[1:], now[0]]
    assert seen == list(range(count))


@given(COSTS)
def test_measured_shares_let_all_ranks_be_busy_equally_long(costs: list[float]) -> None:
    shares = in_ratio(relative(costs))
    busy = [share * cost for share, cost in zip(shares, relative(costs), strict=True) if share > 100]
    assert max(busy) <= 1.02 * min(busy)
    assert abs(sum(shares) - PARTS * len(costs)) <= len(costs)


def test_a_rank_too_fast_for_the_clock_leaves_the_others_a_share() -> None:
    assert in_ratio(relative([0.0, 1.0])) == (2_000, 1)


def test_shares_are_read_as_written() -> None:
    assert parse("off", 3) is parse("measured", 3) is None
    assert parse("1.5,0.25", 2) == (6, 1)


@pytest.mark.parametrize(
    ("text", "said"), [("2,1,1", "3 shares for 2"), ("2,0", "above 0"), ("2,²", "²"), ("2,\x1b[31m", "not a share")]
)
def test_invalid_shares_are_refused(text: str, said: str) -> None:
    with pytest.raises(Refusal, match=said) as refused:
        parse(text, 2)
    assert "\x1b" not in refused.value.line


@pytest.mark.parametrize(
    ("files", "line", "cores"),
    [
        ({"a/b/cpu.max": "200000 100000\n", "a/cpu.max": "150000 100000\n"}, "0::/a/b", 1.5),
        ({"cpu/a/cpu.cfs_quota_us": "25000\n", "cpu/a/cpu.cfs_period_us": "100000\n"}, "1:cpu:/a", 0.25),
        ({"cpu.max": "nonsense\n"}, "0::/", None),
    ],
)
def test_the_least_quota_above_counts(tmp_path: Path, files: dict[str, str], line: str, cores: float | None) -> None:
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / "own").write_text(line)
    assert quota_cores(tmp_path, tmp_path / "own") == cores
    assert usable_cores(tmp_path / "own", tmp_path) == min(ALL, cores or ALL)
