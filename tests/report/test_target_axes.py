"""Options that decide how long a run takes are columns, and the row that they are compared with has what fits it."""

from typing import Any

from runner.records.schema import BETWEEN_NODES, OF_EACH_NODE
from runner.report.summarize import summarize
from tests.support.projects import Project
from tests.support.records import Make

SECONDS = {"": 6.0, "1gbit": 8.0, "100mbit": 12.0}


def table(project: Project) -> list[list[str]]:
    """The cells of the table, each line a list."""
    lines = [line for line in project.runner("summarize").stdout.splitlines() if line.startswith("|")]
    return [[word.strip() for word in line.strip("|").split("|")] for line in lines]


def test_each_link_has_a_row_and_all_have_the_one_process_row_as_baseline(make: Make, project: Project) -> None:
    for repeat in (1, 2, 3):
        for link, seconds in SECONDS.items():
            stdout = {rank: make.lines(rank, seconds + repeat / 100) for rank in (0, 1)}
            options = {"options": {"link": link}} if link else {}
            make.run(project.results, stdout=stdout, layout="2x1", target="compose", repeat=repeat, **options)
        for options in ({}, {"options": {"link": "1gbit"}}):  # one node has no link
            one = {0: make.lines(0, 10.0 + repeat / 100)}
            make.run(project.results, stdout=one, layout="1x1", target="compose", repeat=repeat, **options)
    cells = table(project)
    assert cells[0][:3] == ["layout", "link", "n"]
    found = {(row[0], row[1]): (row[2], row[4].partition(" ")[0]) for row in cells[2:]}
    assert found == {
        ("1x1", ""): ("6", "1.00"),
        ("2x1", ""): ("3", "1.66"),
        ("2x1", "1gbit"): ("3", "1.25"),
        ("2x1", "100mbit"): ("3", "0.83"),
    }


def test_nodes_with_unlike_cores_are_compared_with_the_first_of_them_alone(make: Make, project: Project) -> None:
    runs = [("1x1", "1,0.5", 10.0), ("1x1", "0.5", 20.0), ("2x1", "1,0.5", 8.0), ("2x1", "1", 5.0), ("1x1", "", 9.0)]
    for repeat in (1, 2, 3):
        for layout, cpus, seconds in runs:
            stdout = {rank: make.lines(rank, seconds + repeat / 100) for rank in range(int(layout[0]))}
            options = {"options": {"cpus": cpus}} if cpus else {}
            make.run(project.results, stdout=stdout, layout=layout, target="compose", repeat=repeat, **options)
    cells = table(project)
    assert cells[0][:3] == ["layout", "cpus", "n"]
    found = {(row[0], row[1]): row[4].partition(" ")[0] for row in cells[2:]}
    assert found == {
        ("1x1", "1"): "1.00",
        ("1x1", "0.5"): "1.00",
        ("1x1", ""): "1.00",
        ("2x1", "1+0.5"): "1.25",
        ("2x1", "1"): "2.00",
    }


def test_any_option_is_a_column_if_the_record_says_that_it_decides_how_long_a_run_takes(
    make: Make, project: Project
) -> None:
    """Also one of a target that nobody knows yet; a word of the definition that has its name is none."""
    options: dict[str, Any] = {"fabric": "slow", "share": "1,0.5", "colour": "red"}
    kinds = {"fabric": BETWEEN_NODES, "share": OF_EACH_NODE}
    make.run(project.results, layout="2x1", target="ray", options=options, option_axes=kinds)
    make.run(project.results, layout="1x1", target="ray", options=options, option_axes=kinds)
    make.run(project.results, layout="1x1", axes={"link": "a", "cpus": "1+2"})
    found = [(row.first.target, row.first.axes) for block in summarize(project.results)[0] for row in block.rows]
    assert found == [
        ("local", {"link": "a", "cpus": "1+2"}),
        ("ray", {"share": "1"}),
        ("ray", {"fabric": "slow", "share": "1+0.5"}),
    ]


def test_an_axis_of_a_definition_that_is_named_like_an_option_keeps_its_baseline_apart(
    make: Make, project: Project
) -> None:
    for repeat, (layout, link) in enumerate([("1x1", "a"), ("1x1", "b"), ("1x2", "a"), ("1x2", "b")]):
        make.run(project.results, 10.0 + repeat, layout=layout, axes={"link": link})
    rows = {row.first.cell: row for row in summarize(project.results)[0][0].rows}
    for link in ("a", "b"):
        assert rows[f"1x2 {link}"].baseline is not None
        assert rows[f"1x2 {link}"].baseline.first.cell == f"1x1 {link}"
