"""Runs -> rows: speed-ups, what may be claimed, and each reason why not."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.report.compare import compare
from runner.report.notes import notes as notes_of
from runner.report.order import NO_SPREAD
from runner.report.run_summary import RunSummary
from runner.report.statistics import Estimate, more_for_width, repeats_to_find, typical, welch
from runner.report.two_sides import judge, to_notes
from tests.support.summaries import ONE, SAME, TWO, base, block, changed, pair, row, run


def test_a_speed_up_that_holds_is_claimed() -> None:
    found, speedup = row(base() + pair()), welch(ONE, TWO).estimate()
    assert found.claimed is True
    assert (found.seconds, found.speedup, found.efficiency) == (typical(TWO), speedup, speedup.over(2))
    assert found.serial_fraction == pytest.approx((1 / speedup.value - 0.5) / 0.5)
    assert found.mean("accuracy") == pytest.approx(0.95)
    assert row(base() + pair([12.0, 12.1, 12.2])).serial_fraction is None, "a slow-down has none"


def barely(layout: str) -> list[RunSummary]:
    """Three runs whose difference from ten seconds alone has a p-value of about 0.03."""
    return base((9.62, 9.75, 9.84), layout=layout, processes=int(layout[-1]))


def noted(runs: list[RunSummary], word: str) -> list[str]:
    return [note for note in notes_of(block(runs)) if word in note]


def test_claims_of_one_table_hold_together_by_holm_s_correction_over_the_rows_that_are_not_refused() -> None:
    alone = row(base() + barely("1x2") + [run(9.0, "1x4", 4)])
    assert alone.claimed is True
    assert alone.adjusted_p == alone.difference.p
    assert not noted(base() + barely("1x2"), "Holm")
    runs = base() + pair() + barely("1x3") + barely("1x4")
    assert row(runs).claimed is True
    for layout in ("1x3", "1x4"):
        line = row(runs, layout)
        assert line.speedup.low > 1
        assert f"p = {2 * alone.adjusted_p:.2g}" in line.claimed
    assert ["3 rows" in note for note in noted(runs, "Holm")] == [True]


ONE_RUN = {
    "a failed run": ({"status": "failed"}, "1 of 3 runs of 1x2"),
    "a run that failed before its hardware was known": (
        {"status": "failed", "seconds": None, "hardware": "unknown"}, "1 of 3 runs of 1x2"
    ),
    "no time": ({"seconds": None}, "1 of 3 runs of 1x2"),
    "no accuracy": ({"accuracy": None}, "accuracy differs: missing in 1 of 6"),
    "other tests": ({"eval_samples": 10}, "test samples differs: 1,000 and 10"),
    "other samples": ({"trained_samples": 999}, "trained samples differs: 1,000 and 999"),
    "other batch": ({"global_batch_size": 200}, "global batch differs: 100 and 200"),
    "no load": ({"load_known": False}, "no load"),
    "a disturbed run": ({"disturbed": ["others"], "repeat": 2}, "others during 1x2 repeat 2"),
    "other NCCL on a CPU": ({"same": {**SAME, "NCCL": "2.20"}}, True),
    "another argument of the program": ({"own_args": {"overlap": 2}}, "overlap differs: none and 2"),
}  # fmt: skip
REFUSED = {
    "too few": (base(), pair(TWO[:2]), "n = 2"),
    "a failed run there": ([*base(), run(None, status="timed_out")], pair(), "1 of 4 runs of 1x1"),
    "no complete run": (base(), pair([None] * 3, status="failed"), "no complete run"),
    "no effect": (base(), pair([9.0, 10.0, 11.0]), "includes 1"),
    "times of whole seconds": (base([10.0] * 3), pair([9.0] * 3), NO_SPREAD),
    "other accuracy": (base(), pair(accuracy=0.90), "accuracy differs: 90.00% against 95.00%"),
    "other NCCL": (base(device="cuda"), pair(device="cuda", same={**SAME, "NCCL": "2.20"}),
                   "NCCL differs: 2.20 and None"),
    "hashes that begin alike": (base(same={**SAME, "image": "a" * 64 + "1" * 24}),
                                pair(same={**SAME, "image": "a" * 64 + "2" * 24}), f"{'2' * 24} and {'1' * 24}"),
    "a disturbed baseline": (changed(base(), disturbed=["swapped"]), pair(), "swapped during 1x1 repeat 1"),
    "unlike devices": ([], pair(hardware="A + B", heterogeneous=True), "heterogeneous"),
    "two devices on one CPU": (base(), pair(processes=3), "one CPU"),
    "weak scaling": (base(scaling="weak"), pair(scaling="weak"), "batch per process differs: 50 and 100"),
    **{f"{name} once": (base(), changed(pair(), **changes), why) for name, (changes, why) in ONE_RUN.items()},
}  # fmt: skip


@pytest.mark.parametrize(("first", "second", "why"), REFUSED.values(), ids=REFUSED)
def test_each_thing_that_is_wrong_alone_refuses_the_claim(first: Any, second: Any, why: bool | str) -> None:
    assert str(why) in str(row(first + second).claimed)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"hardware": "B"}, "hardware differs: B and Toy CPU, 8 cores"),
        ({"args": {"epochs": 2, "lr": 0.1}}, "epochs differs: 2 and 1; lr differs: 0.1 and none"),
        ({"target": "compose"}, "target differs: compose and local"),
        ({"scaling": "weak"}, "scaling differs: weak and strong"),
        ({"program": "toys.x"}, "program differs: toys.x and toys.ok"),
        ({"measure": "total_seconds"}, "measure differs: total_seconds and train_seconds"),
        ({"experiment": "other"}, "no complete run of its baseline"),
    ],
)
def test_runs_made_in_another_way_are_not_compared_and_what_differs_is_named(changes: Any, why: str) -> None:
    blocks = compare(base() + pair(**changes))
    assert len(blocks) == 2
    assert any(f"{why}; shown by: " in str(found.claimed) for table in blocks for found in table.rows)


def test_the_command_makes_a_cell_and_its_baseline_in_turn_as_the_runs_were_made() -> None:
    runs = pair(
        [*TWO, 6.0],
        target="slurm",
        experiment="my tiny",
        layout="2x1",
        axes={"backend": "gloo", "link": "1 gbit", "cpus": "1+0.5"},
        option_axes={"link": "between nodes", "cpus": "of each node"},
        args={"epochs": 2, "lr": 0.1},
    )
    definition = {"args": {"epochs": 1, "lr": 0.1}, "baseline": {"layout": "1x1", "backend": "nccl"}}
    (found,) = block(runs, definition).rows
    assert str(found.claimed).partition("shown by: ")[2] == (
        "runner run 'my tiny' --on slurm --layout 1x1 --layout 2x1 --only backend=nccl --only backend=gloo"
        " --with 'link=1 gbit' --with cpus=1,0.5 --set epochs=2 --repeat 4"
    )


def test_numbers_that_are_written_in_two_ways_are_one_argument_and_one_axis() -> None:
    assert row(changed(base(), args={"epochs": 1.0}) + pair(args={"epochs": 1.0})).claimed is True
    mixed = changed(base(axes={"batch": [8, {"of": 2}]}), axes={"batch": [8.0, {"of": 2.0}]})
    assert [len(line.runs) for line in block(mixed).rows] == [3]
    for value in (True, "1.0", 1.5):
        assert len(compare(changed(base(), args={"epochs": value}))) == 2


def test_over_a_declared_baseline_of_two_processes_the_efficiency_is_over_the_ratio_of_processes() -> None:
    runs = pair([10.0, 10.1, 9.9]) + pair([5.0, 5.05, 4.95], layout="1x4", processes=4)
    two, four = block(runs, {"baseline": {"layout": "1x2"}}).rows
    assert (two.claimed, two.efficiency, two.serial_fraction) == ("the baseline", Estimate(1.0), None)
    assert four.efficiency.value == pytest.approx(1.0)
    assert four.serial_fraction is None, "it is defined over one process"


STEADY = [10.0, 10.1, 9.9]
WEAK = {"scaling": "weak"}
TWICE = {**WEAK, "trained_samples": 2_000, "global_batch_size": 200}
UNCOUNTED = {**WEAK, "trained_samples": 0, "global_batch_size": 0}
EVALUATION = {**WEAK, "measure": "eval_seconds", "global_batch_size": 8}
APART = "no training of this layout: rank 1 of 2 joined no process group"
WORK = {
    "weak": (base(**WEAK), pair(STEADY, **TWICE), 2.0, True),
    "weak, one run did more": (base(**WEAK), changed(pair(STEADY, **TWICE), trained_samples=4_000), 2.52,
                               "trained samples differs: 2,000 and 4,000"),
    "weak, one side is not counted": (base(**WEAK), pair(STEADY, **{**TWICE, "trained_samples": 0}), 2.0,
                                      "trained samples differs: 0 and 1,000"),
    "weak and not counted": (base(**UNCOUNTED), pair([12.5, 12.6, 12.4], **UNCOUNTED), 1.6, "not counted"),
    "counted": (base(scaling=None), pair(scaling=None), 10 / 6, True),
    "not of training": (base(STEADY, **EVALUATION), pair(STEADY, **EVALUATION, trained_samples=2_000), 1.0, ""),
    "no group": (base(), pair(doubts=[APART]), None, APART),
}  # fmt: skip


@pytest.mark.parametrize(("first", "second", "speedup", "claimed"), WORK.values(), ids=WORK)
def test_the_speed_up_is_that_of_the_same_work(first: Any, second: Any, speedup: Any, claimed: bool | str) -> None:
    found = row(first + second)
    assert (found.speedup and found.speedup.value) == (speedup and pytest.approx(speedup, rel=0.01))
    assert found.efficiency == (found.speedup and found.speedup.over(2))
    assert str(claimed) in str(found.claimed)


@pytest.mark.parametrize("measure", ["train_seconds", "eval_seconds"])
def test_without_a_known_kind_of_scaling_there_is_no_figure(measure: str) -> None:
    unknown = {"scaling": None, "measure": measure, "trained_samples": 0}
    runs = base(**unknown) + pair(**unknown)
    for each in block(runs).rows:
        assert each.speedup is each.efficiency is each.serial_fraction is each.difference is None
        assert each.seconds
    assert "scaling" in str(row(runs).claimed)
    assert noted(runs, "--scaling")


def test_every_run_that_is_not_complete_or_was_disturbed_has_a_note() -> None:
    runs = [*base([*ONE, None]), *pair(disturbed=["others"]), run(None, status="running")]
    runs.append(run(None, "1x2", 2, status="timed_out", reason="not done after 5"))
    for words in ("1x2: timed out: not done", "1x1: running: ", "1x2: disturbed: others", "1x1: completed without"):
        assert noted(runs, words), words


def test_what_is_skipped_for_one_reason_is_one_note() -> None:
    skip = [{"layout": "1x1", "loader": name, "why": "nobody to share with"} for name in ("a", "b")]
    skip += [{"layout": "2x2", "when": "cpu", "why": "too slow"}, {"layout": "2x4", "when": "cuda", "why": "no"}]
    notes = notes_of(block(base(), {"skip": skip}))
    assert [note for note in notes if "left out" in note] == [
        "left out: layout 1x1, loader a; layout 1x1, loader b: nobody to share with",
        "left out: layout 2x2: too slow",
    ]


RUNS = st.lists(
    st.builds(
        lambda seconds, cell, **changes: run(seconds, *cell, **changes),
        st.none() | st.floats(0.001, 1e6),
        st.sampled_from([("1x1", 1), ("1x2", 2), ("2+3", 5)]),
        status=st.sampled_from(["completed", "failed", "running"]),
        global_batch_size=st.sampled_from([0, 8, 16]),
        scaling=st.sampled_from(["strong", "weak"]),
    ),
    max_size=14,
)


@given(RUNS)
def test_no_run_is_lost_and_no_claim_stands_without_its_evidence(runs: list[RunSummary]) -> None:
    rows = [found for table in compare(runs) for found in table.rows]
    assert sorted(each.path for found in rows for each in found.runs) == sorted(each.path for each in runs)
    for found in rows:
        assert found.claimed
        assert found.speedup is None or math.isfinite(found.speedup.value)
        if found.claimed is True:
            assert found.speedup.low > 1 or found.speedup.high < 1
            for side in (found, found.baseline):
                assert len(side.complete) == len(side.runs) >= 3


def test_what_a_step_moves_is_said_where_ways_of_exchanging_are_compared() -> None:
    runs = pair(axes={"way": "all"}, bytes_moved=1_900.0) + pair(axes={"way": "less"}, bytes_moved=90.0)
    assert noted(base() + runs, ": 1x2 all: 1,900; 1x2 less: 90")


def test_the_repeats_that_are_proposed_are_enough_for_the_claim_beside_the_other_rows_of_the_table() -> None:
    def more(runs: list[RunSummary]) -> list[str]:
        return [note.split(": 1x2: ")[1].split(";")[0] for note in noted(base() + runs, "more repeats")]

    open_ = pair([9.6, 10.2, 9.9])
    others = [run for n in (3, 4, 5, 6) for run in pair([9.6, 10.2, 9.9], layout=f"1x{n}", processes=n)]
    difference = row(base() + open_).difference
    for runs, tests in ((open_, 1), (open_ + others, 5)):
        needed = repeats_to_find(difference, abs(difference.log), tests=tests)
        assert more(runs) == [str(more_for_width(difference, 0.05, tests)), str(needed - 3)]
    assert more(open_) != more(open_ + others)
    assert more(pair([5.0, 10.0, 20.0]))[1] == "over 10,000"
    assert more(pair()) == more(pair(TWO[:1])) == []


def test_a_figure_of_the_load_that_a_run_lacks_is_no_zero() -> None:
    whole, part = {"cpu_percent": 50.0, "gpu_percent": 90.0}, {"cpu_percent": 70.0}
    found = row(base() + changed(pair(load=whole), load=part))
    assert found.load == {"cpu_percent": pytest.approx((50 + 50 + 70) / 3), "gpu_percent": 90.0}


UNKNOWN = [
    ({"same": {**SAME, "code": "None"}}, "code unknown"),
    ({"accuracy": None}, "neither accuracy nor loss known"),
    ({"load_known": False, "sources": {"wall_seconds": "the clock"}}, "load unknown"),
]


@pytest.mark.parametrize(("changes", "words"), UNKNOWN)
def test_what_no_record_says_is_noted_where_it_is_taken_for_granted_and_refuses_nothing(
    changes: Any, words: str
) -> None:
    one, two = base(**changes), pair(**changes)
    assert row(one + two).claimed is True
    assert noted(one + two, words)
    assert not noted(base() + pair(), words)
    assert not noted(one + pair(ONE, **changes), words), "without a claim"
    assert words in str(to_notes(judge(one, base(TWO, **changes), 0.05), 0.05))
