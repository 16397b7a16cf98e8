"""The column MFU, and the word on what limits: only what the figures of a row support."""

from pathlib import Path
from typing import Any

import pytest

from runner.report import formats
from runner.report.columns import plain
from runner.report.compare import compare
from runner.report.notes import notes
from runner.report.rows import Block
from runner.report.summarize import summarize
from tests.report.hostile import edited
from tests.support.records import Make
from tests.support.summaries import run


def limits(block: Block) -> list[Any]:
    return [plain(row)["limited_by"] for row in block.rows]


@pytest.mark.parametrize(
    ("alone", "two", "words"),
    [
        (0.6, {"mfu": 0.55}, ["compute", "compute"]),
        (0.6, {"mfu": 0.4}, ["compute", "communication or slower computing"]),
        (0.6, {"mfu": 0.4, "exchange_share": 0.3}, ["compute", "communication"]),
        (0.6, {"mfu": 0.4, "exchange_share": 0.1}, ["compute", "slower computing"]),
        (0.3, {"mfu": 0.2}, [None, "communication or slower computing"]),
        (0.6, {"mfu": 0.4, "cores": 1}, ["compute", None]),
        (0.6, {"mfu": 0.4, "disturbed": ["others"]}, ["compute", None]),
        (None, {"device": "cuda", "input_share": 0.6}, [None, None]),  # named only if the GPU had time left
        (None, {"device": "cuda", "input_share": 0.6, "load": {"gpu_percent": 97.0}}, [None, None]),
        (None, {"device": "cuda", "input_share": 0.6, "load": {"gpu_percent": 40.0}}, [None, "input"]),
    ],
)
def test_what_limits_follows_from_the_figures_or_is_not_said(alone: float | None, two: Any, words: Any) -> None:
    (found,) = compare([run(10.0, mfu=alone), run(6.0, "1x2", 2, **two)])
    assert limits(found) == words
    said = [note for note in notes(found) if note.startswith("limited by: ")]
    assert len(said) == any(words)
    assert all(word in said[0] for word in words if word)


def test_communication_is_named_over_a_baseline_of_fewer_processes_and_the_note_says_how_many() -> None:
    runs = [run(6.0, "1x2", 2, mfu=0.6), run(3.0, "1x4", 4, mfu=0.4)]
    (over_two,) = compare(runs, lambda _: {"baseline": {"layout": "1x2"}})
    assert limits(over_two) == ["compute", "communication or slower computing"]
    assert "MFU 40%, 60% with 2 processes" in str(notes(over_two))
    ways = [run(6.0, "1x2", 2, mfu=0.6, axes={"way": "a"}), run(6.0, "1x2", 2, mfu=0.4, axes={"way": "b"})]
    (as_many,) = compare(ways, lambda _: {"baseline": {"layout": "1x2", "way": "a"}})
    assert limits(as_many) == ["compute", None]


def test_mfu_is_a_column_only_where_it_is_known_and_a_field_for_scripts(results: Path, make: Make) -> None:
    first = make.run(results).path
    assert "MFU" not in formats.to_table(summarize(results)[0][0]).head
    for name, value in (("flops_per_second", 3e10), ("peak_flops_per_second", 4e10)):
        edited(first, "metrics", name, value=value)
    (found,), _ = summarize(results)
    table = formats.to_table(found)
    assert table.lines[0][table.head.index("MFU")] == "75%"
    assert plain(found.rows[0])["mfu"] == 0.75
