"""`runner run --missing` runs the missing repeats of a cell if they are comparable with the existing ones."""

from typing import Any

import pytest

from runner.core.errors import RequestError, RunError
from runner.definitions import experiment as definition
from runner.definitions.choices import Selection
from runner.definitions.plan import make_plan
from runner.execution import missing
from runner.records.schema import NodeExit, Outcome, Record
from tests.support.projects import OK, Project
from tests.support.records import Make


def test_only_the_repeats_that_a_cell_lacks_are_run_and_only_with_the_same_code(project: Project) -> None:
    project.define(matrix={"layout": ["1x1"]})
    words = ("run", "tiny", "--missing", "--repeat")
    for repeats in ("1", "3", "3"):
        done = project.runner(*words, repeats)
        assert done.code == 0, done.snapshot
    assert "no repeat is missing" in done.stderr
    records = [project.record(run) for run in project.runs()]
    assert sorted(record["launch"]["repeat"] for record in records) == [1, 2, 3]
    project.program("toys.ok", OK + "    # another line\n")
    assert "1x1: code of toys.ok: " in project.refused(*words, "4")
    assert len(project.runs()) == 3


def test_a_repeat_is_there_if_the_runner_has_completed_it_with_the_same_args(project: Project, make: Make) -> None:
    path = project.define(matrix={"layout": ["1x1"]}, args={"epochs": 1, "seed": 1}, repeat=4)
    failed = Outcome(ended="2026-11-21T00:01:00+00:00", wall_seconds=2.0, exits=[NodeExit(0, 3)])
    changes: list[dict[str, Any]] = [{}, {"outcome": failed}, {"args": {"epochs": 1, "seed": 9}}, {"by_hand": True}]
    for repeat, changed in enumerate(changes, 1):
        make.run(project.results, repeat=repeat, **changed)
    plan = make_plan(definition.load(path, project.root), Selection())
    left, there = missing.missing(plan, "local", project.results)
    assert [run.repeat for run in left.runs] == [2, 3, 4]
    assert list(there) == ["1x1"]


@pytest.mark.parametrize(
    ("what", "launch"),
    {
        "commit": {"code": {"commit": "1"}},
        "args": {"args": {"epochs": 2}},
        "image": {"image": {"id": "1"}},
        "data": {},
    }.items(),
)
def test_what_differs_from_the_repeats_that_are_there_is_named(what: str, launch: dict[str, Any], make: Make) -> None:
    then = Record(launch=make.launch(), status="completed", facts={"data_sha256": "1"})
    status, error = ("completed", RunError) if what == "data" else ("running", RequestError)
    now = Record(launch=make.launch(**launch), status=status, facts={"data_sha256": "2"})
    with pytest.raises(error, match=f"1x1: {what}: .* in run {then.launch.id}, now "):
        missing.require_same([now], {"1x1": then})
    missing.require_same([then], {"1x1": then})
