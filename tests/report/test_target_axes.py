"""Options that decide how long a run takes are columns, and the row that they are compared with has what fits it."""

from pathlib import Path

import pytest

from runner.records.schema import BETWEEN_NODES, OF_EACH_NODE
from runner.report.summarize import summarize
from runner.report.table import to_table
from tests.support.records import Make


@pytest.mark.parametrize(
    ("option", "kind", "runs", "found"),
    [
        (
            "link",
            BETWEEN_NODES,
            {"2x1 ": 6.0, "2x1 1gbit": 8.0, "2x1 100mbit": 12.0, "1x1 ": 10.0, "1x1 1gbit": 10.0},  # one node has none
            {"1x1 ": "1.00", "2x1 ": "1.66", "2x1 1gbit": "1.25", "2x1 100mbit": "0.83"},
        ),
        (
            "cpus",
            OF_EACH_NODE,
            {"1x1 1,0.5": 10.0, "1x1 0.5": 20.0, "2x1 1,0.5": 8.0, "2x1 1": 5.0, "1x1 ": 9.0},
            {"1x1 1": "1.00", "1x1 0.5": "1.00", "1x1 ": "1.00", "2x1 1+0.5": "1.25", "2x1 1": "2.00"},
        ),
    ],
)
def test_each_value_has_a_row_and_its_baseline_is_one_process_as_on_the_first_node(
    make: Make, results: Path, option: str, kind: str, runs: dict[str, float], found: dict[str, str]
) -> None:
    for repeat in (1, 2, 3):
        for cell, seconds in runs.items():
            layout, value = cell.split(" ")
            options = {"options": {option: value}, "option_axes": {option: kind}} if value else {}
            make.run(results, seconds + repeat / 100, layout=layout, target="compose", **options)
    (block,) = summarize(results)[0]
    table = to_table(block)
    assert table.head[:3] == ["layout", option, "n"]
    assert {f"{line[0]} {line[1]}": line[4].partition(" ")[0] for line in table.lines} == found
