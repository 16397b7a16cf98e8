"""`runner predict`, as a person types it."""

import json

import pytest

from tests.support.predictions import measure_network, train
from tests.support.projects import OK, Project


@pytest.fixture
def measured(project: Project) -> Project:
    """A project whose definition has two layouts, with runs of one process and of a network."""
    project.define(matrix={"layout": ["1x1", "2x1"]})
    project.define(name="links", matrix={"layout": ["2x1"]}, measure="round_trip_seconds")
    project.program("toys.mixed", OK.replace('"--verbose", action="store_true"', '"--communication", default="ddp"'))
    project.define(name="mixed", program="toys.mixed", matrix={"layout": ["1x1"], "communication": ["ddp"]})
    train(project.results)
    train(project.results)
    measure_network(project.results, "2x1", 1e8)
    return project


def test_what_to_expect_is_a_table_with_its_advice(measured: Project) -> None:
    ended = measured.runner("predict", "tiny", "--communication", "ddp", "--communication", "local-sgd=8")
    assert (ended.code, ended.stderr) == (0, "")
    lines = ended.stdout.splitlines()
    assert lines[0].startswith(
        "tiny, from 2 runs with one process: 100 ms a step of 100 samples, gradients of 10 MB; on Toy"
    )
    assert lines[1] == "network: measured in 1 at 2x1"
    assert lines[2].split("\t") == ["layout", "communication", "speed-up [95%]", "limited by"]
    rows = [line.split("\t") for line in lines[3:6]]
    assert [row[:2] for row in rows] == [["1x1", ""], ["2x1", "ddp"], ["2x1", "local-sgd=8"]]
    assert rows[0][2:] == ["1.00", "compute"]
    assert rows[1][3].startswith("network bandwidth, ")
    assert lines[6].startswith("- best: 2x1 local-sgd=8, speed-up ")


def test_the_answer_is_json_too(measured: Project) -> None:
    ended = measured.runner("predict", "tiny", "--json", "--layout", "4x1", "--link", "10gbit")
    [answer] = json.loads(ended.stdout)["predictions"]
    assert answer["assumed"] == {"latency": 5e-05, "bandwidth": 1.25e9}
    assert {(row["layout"], row["communication"]) for row in answer["rows"]} >= {("1x1", None), ("4x1", "ddp")}
    for row in answer["rows"][1:]:
        assert row["speedup_low"] <= row["speedup"] <= row["speedup_high"]
        assert sum(row["losses"].values()) < row["step_seconds"]
    assert answer["cheapest_near_best"]["layout"] == "4x1"
    assert len(answer["one_process"]["runs"]) == 2


def test_the_summary_shows_it_beside_what_was_measured(measured: Project) -> None:
    assert "predicted" not in measured.runner("summarize").stdout
    train(measured.results, "2x1", step_seconds=0.15)
    shown = measured.runner("summarize").stdout
    assert "### tiny, target local: predicted beside measured" in shown
    assert "\n| 2x1 | 1 | 0.67 | " in shown
    assert "predicted" not in measured.runner("summarize", "--experiment", "links").stdout
    json.loads(measured.runner("summarize", "--format", "json").stdout)
    assert "predicted" not in measured.runner("summarize", "--format", "csv").stdout


REFUSALS = {
    "no such experiment": (("tinny",), "did you mean 'tiny'?"),
    "no such layout": (("tiny", "--layout", "two"), "--layout: layout 'two' makes no sense"),
    "no such axis": (("tiny", "--only", "colour=red"), "'colour' is no axis of tiny"),
    "a layout that is chosen elsewhere": (("tiny", "--only", "layout=2x1"), "choose layouts with --layout"),
    "no such target": (("tiny", "--on", "moon"), "moon"),
    "no option": (("tiny", "--with", "link"), "--with link: write name=value"),
    "an axis that is chosen elsewhere": (
        ("mixed", "--only", "communication=ddp"),
        "choose what is exchanged with --communication",
    ),
    "an option that no target has": (("tiny", "--with", "lnk=1gbit"), "no target has an option 'lnk'; did you mean"),
    "an option given twice": (("tiny", "--with", "link=1gbit", "--with", "link=10mbit"), "'link' is given twice"),
    "memory that two machines do not share": (
        ("tiny", "--communication", "shared-memory", "--layout", "2x1"),
        "tiny: 2x1 shared-memory: it is for processes of one machine: choose others with --layout",
    ),
    "no network over that link": (
        ("tiny", "--layout", "2x1", "--with", "link=1gbit"),
        "runner run links --layout 2x1 --repeat 1 --with link=1gbit, or assume",
    ),
    "no network": (
        ("tiny", "--layout", "1x2"),
        "no run that measured the network: runner run links --layout 1x2 --repeat 1, or assume",
    ),
    "a network": (("links",), "links measures a network: name an experiment that trains"),
    "no runs": (
        ("tiny", "--on", "compose"),
        "no run of tiny with one process to predict from: runner run tiny --layout 1x1 --repeat 1 --on compose",
    ),
    "a batch too small": (("tiny", "--layout", "2x64"), "a batch of 100 is too small for 128 processes"),
    "too many": (
        ("tiny", "--layout", ",".join(f"{nodes}x1" for nodes in range(1, 400))),
        "500 are the most",
    ),
    "no results": (("tiny", "--results", "nowhere"), "nowhere"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_predicted_is_refused_in_one_line(measured: Project, name: str) -> None:
    words, why = REFUSALS[name]
    ended = measured.runner("predict", *words)
    assert ended.code == 2, ended.snapshot
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert why in ended.stderr
