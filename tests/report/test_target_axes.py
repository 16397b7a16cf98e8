"""Options that decide how long a run takes are columns, and the row that they are compared with has what fits it."""

from pathlib import Path

from runner.records.schema import BETWEEN_NODES, OF_EACH_NODE
from runner.report.summarize import summarize
from runner.report.table import to_table
from tests.support.records import Make


def speed_ups(
    make: Make, results: Path, option: str, kind: str, runs: list[tuple[str, str, float]]
) -> dict[tuple[str, str], str]:
    """Return the speed-up of each row by its layout and its option, of three runs each of: layout, option, seconds."""
    for repeat in (1, 2, 3):
        for layout, value, seconds in runs:
            stdout = {rank: make.lines(rank, seconds + repeat / 100) for rank in range(int(layout[0]))}
            options = {"options": {option: value}, "option_axes": {option: kind}} if value else {}
            make.run(results, stdout=stdout, layout=layout, target="compose", repeat=repeat, **options)
    (block,) = summarize(results)[0]
    table = to_table(block)
    assert table.head[:3] == ["layout", option, "n"]
    return {(line[0], line[1]): line[4].partition(" ")[0] for line in table.lines}


def test_each_link_has_a_row_and_all_have_the_one_process_row_as_baseline(make: Make, tmp_path: Path) -> None:
    runs = [("2x1", "", 6.0), ("2x1", "1gbit", 8.0), ("2x1", "100mbit", 12.0), ("1x1", "", 10.0)]
    runs += [("1x1", "1gbit", 10.0)]  # one node has no link
    found = speed_ups(make, tmp_path, "link", BETWEEN_NODES, runs)
    assert found == {("1x1", ""): "1.00", ("2x1", ""): "1.66", ("2x1", "1gbit"): "1.25", ("2x1", "100mbit"): "0.83"}


def test_nodes_with_unlike_cores_are_compared_with_the_first_of_them_alone(make: Make, tmp_path: Path) -> None:
    runs = [("1x1", "1,0.5", 10.0), ("1x1", "0.5", 20.0), ("2x1", "1,0.5", 8.0), ("2x1", "1", 5.0), ("1x1", "", 9.0)]
    found = speed_ups(make, tmp_path, "cpus", OF_EACH_NODE, runs)
    alone = {("1x1", "1"): "1.00", ("1x1", "0.5"): "1.00", ("1x1", ""): "1.00"}
    assert found == {**alone, ("2x1", "1+0.5"): "1.25", ("2x1", "1"): "2.00"}
