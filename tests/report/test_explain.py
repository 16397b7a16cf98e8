"""Which rank, link or disturbance is named, with which cause, by what a record says; and nobody without proof."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.records.schema import Load, RankFacts, Record
from runner.report.bottlenecks import NOT_TOLD, Cause, causes, explain
from runner.report.summarize import summarize
from runner.report.times import PARTS, disturbances, times_of
from tests.support.fixtures import Make
from tests.support.projects import Project
from tests.support.records import make_launch

Parts = tuple[float, float, float, float]
HEALTHY, WAITING = (0.02, 0.8, 0.15, 0.03), (0.02, 0.4, 0.1, 0.48)
SLOW_LOADER, SLOW = (0.5, 0.4, 0.1, 0.0), (0.02, 0.88, 0.1, 0.0)
EXCHANGING, ALONE = (0.0, 0.2, 0.79, 0.01), (0.01, 0.93, 0.05, 0.01)


def told(parts: Parts, **shares: float) -> dict[str, float]:
    """What a rank reports of an epoch of 10 s."""
    seconds = {f"{part}_seconds": 10 * share for part, share in zip(PARTS, (*parts, 0.0), strict=True)}
    return {**seconds, "slowest_share": 0.5, "cpu_share": 0.8, **shares}


def record(*ranks: Any, epochs: int = 4, machines: str = "a", links: Any = (), **facts: Any) -> Record:
    """A record whose ranks, each on a node of its own, report the same in each epoch, but for a per cent."""
    draw = random.Random(1)
    ranks = [told(each) if isinstance(each, tuple) else each for each in ranks]

    def again(values: dict[str, float]) -> dict[str, float]:
        return {name: value * draw.uniform(0.99, 1.01) for name, value in values.items()}

    rows = [
        {"epoch_num": epoch, "time_by_rank": {str(rank): again(values) for rank, values in enumerate(ranks)}}
        for epoch in range(1, epochs + 1)
    ]
    known = [
        RankFacts(rank=rank, node=rank, facts={"machine": machines[rank % len(machines)], **facts})
        for rank in range(len(ranks))
    ]
    for rank, link in zip(known, links, strict=False):
        rank.facts["link"] = link
    return Record(launch=make_launch(), status="completed", ranks=known, epochs=rows)


def found(made: Record) -> list[Cause]:
    return causes(times_of(made), made)


def named(made: Record) -> str:
    return "; ".join(f"{cause.kind} {cause.ranks}" for cause in found(made))


def links(*speeds: float) -> list[dict[str, float]]:
    """The link of each rank to the next one, by its bytes per second."""
    return [{"to": (n + 1) % len(speeds), "bytes_per_second": speed} for n, speed in enumerate(speeds)]


CASES = {
    "a healthy run": (record(HEALTHY, HEALTHY), ""),
    "a slow loader": (record(WAITING, SLOW_LOADER), "loader (1,)"),
    "two slow loaders of four": (record(*[WAITING, SLOW_LOADER] * 2), "loader (1, 3)"),
    "a quota": (record(WAITING, told(SLOW, throttled_share=0.45)), "quota (1,)"),
    "a quota that all ranks have": (
        record(told(HEALTHY, throttled_share=0.5), told(HEALTHY, throttled_share=0.4)), "quota (0, 1)",
    ),
    "a quota that nobody waits for": (record(ALONE, told(ALONE, throttled_share=0.4)), ""),
    "a quota of the rank that waits": (record(SLOW, told(WAITING, throttled_share=0.4)), ""),
    "a quota that hardly matters": (record(WAITING, told(SLOW, throttled_share=0.05)), ""),
    "a slow link that hardly matters": (record(HEALTHY, HEALTHY, links=links(1e9, 6.5e6)), ""),
    "a slower processor": (
        record(told(WAITING, cpu_share=0.4), told(SLOW, cpu_share=0.85)), "processor (1,)",
    ),
    "a node that others use": (record(WAITING, SLOW, machines="ab"), "node (1,)"),
    "a slower GPU": (record(WAITING, SLOW, device="cuda:1"), "gpu (1,)"),
    "a slow link": (record(EXCHANGING, EXCHANGING, links=links(1e9, 6.5e6)), "link (1,)"),
    "a link that is slow beside the others": (
        record(*[EXCHANGING] * 4, machines="abcd", links=links(1e9, 1e9, 2e8, 1e9)), "link (2,)",
    ),
    "much to exchange over good links": (record(EXCHANGING, EXCHANGING, links=links(1e9, 1.2e9)), ""),
    "one epoch, always this rank": (
        record(WAITING, told(SLOW_LOADER, slowest_share=1.0), epochs=1), "loader (1,)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("made", "causes"), CASES.values(), ids=CASES)
def test_the_right_rank_is_named_with_the_right_cause(made: Record, causes: str) -> None:
    assert named(made) == causes
    lines, bars, _ = explain(made)
    assert (len(lines), len(bars)) == (3, len(made.ranks))
    assert all(cause.sentence in lines[1] for cause in found(made))


def test_a_slow_loader_is_named_though_something_else_made_an_epoch_long_but_not_if_it_was_slow_in_some_only() -> None:
    """Its batches take as many seconds then as in the other epochs: a smaller part of that one."""
    made = record(WAITING, SLOW_LOADER)
    for values in made.epochs[1]["time_by_rank"].values():
        values["compute_seconds"] += 20
    assert named(made) == "loader (1,)"
    turned = made.epochs[2]["time_by_rank"]
    turned["0"], turned["1"] = turned["1"], turned["0"]
    assert named(made) == ""


def test_it_is_said_how_long_a_quota_holds_ranks_back_also_if_it_sets_in_later() -> None:
    made = record(WAITING, told(SLOW, throttled_share=0.6))
    del made.epochs[0]["time_by_rank"]["1"]["throttled_share"]
    both = record(*[told(WAITING, throttled_share=0.45)] * 2)
    for run, who, others in ((made, "rank 1 (node 1) ", True), (both, "ranks 0, 1, each ", False)):
        (cause,) = found(run)
        assert cause.sentence.startswith(who)
        assert "45% of the training" in cause.sentence
        assert ("the others wait" in cause.sentence) is others


@given(st.integers(2, 6), st.integers(1, 12), st.randoms(use_true_random=False))
def test_ranks_that_differ_by_chance_are_not_named(ranks: int, epochs: int, draw: random.Random) -> None:
    """Each epoch one rank, drawn anew, is up to a fifth slower than the others."""
    made = record(*[HEALTHY] * ranks, epochs=epochs)
    for row in made.epochs:
        slower = [draw.uniform(0, 0.2) for _ in range(ranks)]
        for rank, own in enumerate(slower):
            row["time_by_rank"][str(rank)] = told((0.02, 0.7 + own, 0.2, max(slower) - own), slowest_share=1 / ranks)
    assert named(made) == ""


def test_the_bars_have_one_length_and_the_lines_say_what_would_help() -> None:
    made = record(WAITING, SLOW_LOADER)
    lines, bars, _ = explain(made)
    assert {len(bar) for _, bar, _ in bars} == {40}
    assert ": computing 40%, waiting for data 26%, waiting for the slowest 24%" in lines[0]
    assert "batches 50%" in lines[1]
    assert "num_workers" in lines[2]
    made.status = "failed"
    assert "is failed): computing 40%" in explain(made)[0][0]


def test_of_a_disturbed_run_it_is_said_first_and_waiting_for_a_core_is_not_computing() -> None:
    made = record(told(ALONE, cpu_share=0.5))
    made.ranks[0].facts |= {"machine_cores": 2, "device": "cpu"}
    quiet = explain(made)
    made.load = [Load(0, 1, {"cpu_percent": 97.0, "own_cpu_percent": 25.0}, {}, {})]
    lines, bars, _ = explain(made)
    assert lines[:3] == ["Disturbed: other processes used 1.44 of 2 cores", *quiet[0][:2]]
    assert "computing 50%, waiting for a core 43%, exchanging 5%" in lines[1]
    assert ("disturbance" in lines[3], "cores" in quiet[0][2]) == (True, True)
    assert len(bars[0][1]) == 40
    on_gpu, _, _ = explain(record(told(ALONE, cpu_share=0.5), device="cuda:0"))
    assert "computing 93%" in on_gpu[0]


def test_of_many_ranks_the_named_ones_have_a_bar() -> None:
    _, bars, _ = explain(record(*[WAITING] * 90, SLOW_LOADER, *[WAITING] * 9))
    assert [name for name, _, _ in bars][-2:] == ["rank 90", "... and 68 more"]


def test_the_command_and_the_summary_say_what_a_records_raw_files_hold(
    project: Project, make: Make, results: Path
) -> None:
    stdout = {}
    for rank, parts in enumerate((WAITING, SLOW_LOADER)):  # put into the one epoch where its time went
        fields = json.dumps(told(parts, slowest_share=1.0))[1:-1].encode()
        stdout[rank] = make.lines(rank, 10.0).replace(b'"steps": 13', b'"steps": 13, ' + fields)
    folder = make.run(results, stdout=stdout, layout="1x2")
    done = project.runner("explain", folder.path)
    assert done.code == 0, done.snapshot
    _, second, *_, bar, _, letters = done.stdout.splitlines()
    assert bar == f"rank 0  d{'#' * 16}{'x' * 4}{'.' * 19}  d 2%  # 40%  x 10%  . 48%"
    assert letters == "d waiting for data  # computing  x exchanging  . waiting for the slowest"
    assert project.runner("explain", folder.path / "run.json").stdout == done.stdout
    (run,) = summarize(results)[0][0].rows[0].runs
    assert run.slowed[0].startswith("rank 1 (node 0, here) ")
    assert second == f"What slows it: {run.slowed[0]}"
    (folder.path / "run.json").write_text("{")
    project.refused("explain", folder.path)


@pytest.mark.parametrize(
    ("status", "reason", "epochs", "said"),
    [
        ("running", None, [], "the run is running"),
        ("completed", None, [], NOT_TOLD),
        ("completed", None, [{"epoch_num": 1}], NOT_TOLD),
        ("failed", "rank 1 exited", [], "the run is failed: rank 1 exited"),
    ],
)
def test_a_record_that_says_nothing_of_the_time_gets_one_line_that_says_why(
    status: Any, reason: Any, epochs: Any, said: str
) -> None:
    (line,), bars, _ = explain(Record(launch=make_launch(), status=status, reason=reason, epochs=epochs))
    assert line.endswith(said)
    assert bars == []


QUIET = {"cpu_percent": 92.2, "own_cpu_percent": 88.0, "swapped_bytes_per_second": 0.0}


def disturbed_by(*means: Any, cores: Any = 2, machines: str = "aaaaaaaa") -> list[str]:
    """Return the disturbances of nodes with these mean figures, on machines named by letters."""
    facts = [
        RankFacts(rank=node, node=node, facts={"machine": machines[node], "machine_cores": cores})
        for node in range(len(means))
    ]
    load = [Load(node, 1, mean, {}, {}) for node, mean in enumerate(means)]
    return disturbances(Record(launch=make_launch(), status="completed", ranks=facts, load=load))


DISTURBANCES = {
    "a quiet run": ({}, 2, ""),
    "what the system takes of two cores": ({"cpu_percent": 96.0, "own_cpu_percent": 89.0}, 2, ""),
    "the kernel, which shapes a link": (
        {"cpu_percent": 98.0, "own_cpu_percent": 80.0, "interrupts_percent": 15.0}, 2, "",
    ),
    "others on cores that nobody needs": ({"cpu_percent": 50.0, "own_cpu_percent": 12.0}, 16, ""),
    "others where less than a core is left": ({"cpu_percent": 95.0, "own_cpu_percent": 85.0}, 16, "1.60 of 16 cores"),
    "a hot processor": ({"cpu_throttled_percent": 30.4}, 2, "temperature 30%"),
    "hot and swapping for a moment": (
        {"cpu_throttled_percent": 4.0, "gpu_throttled_percent": 5.0, "swapped_bytes_per_second": 9e5}, 2, "",
    ),
    "hot GPUs": ({"gpu_throttled_percent": 12.5}, 2, "power supply 12%"),
    "others on the GPUs": ({"gpu_shared_percent": 100.0}, 2, "on the GPUs 100%"),
    "swapping": ({"swapped_bytes_per_second": 2.5e6}, 2, "swapped 2.5 MB/s"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "cores", "words"), DISTURBANCES.values(), ids=DISTURBANCES)
def test_each_disturbance_is_named_with_its_figure(changes: Any, cores: int, words: str) -> None:
    said = disturbed_by({**QUIET, **changes}, cores=cores)
    assert [words in what for what in said] == [True] * bool(words)


def test_nodes_on_one_machine_are_not_others_to_each_other() -> None:
    half = {"cpu_percent": 98.0, "own_cpu_percent": 48.0}
    assert disturbed_by(half, half) == []
    assert ["1.00 of 2 cores" in what for what in disturbed_by(half, half, machines="ab")] == [True] * 2


def test_a_run_that_did_not_report_its_own_share_is_taken_to_be_quiet() -> None:
    busy = {**QUIET, "own_cpu_percent": 1.0}
    assert disturbed_by({"cpu_percent": 100.0}) == disturbed_by({"cpu_percent": 100.0}, busy) == []
    assert disturbed_by(busy, cores=None) == disturbed_by() == []
