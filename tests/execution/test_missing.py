"""`runner run --missing`: the repeats that a cell lacks, if they would be comparable with those that are there."""

import json
from typing import Any

import pytest

from tests.support.projects import OK, Project

ADDED = ("run", "tiny", "--repeat", "3", "--missing")


@pytest.fixture
def begun(project: Project) -> Project:
    """A project with one repeat of its one cell."""
    project.define(matrix={"layout": ["1x1"]})
    done = project.runner("run", "tiny")
    assert done.code == 0, done.snapshot
    return project


def repeats(project: Project) -> list[tuple[int, str]]:
    records = [project.record(run) for run in project.runs()]
    return sorted((record["launch"]["repeat"], record["status"]) for record in records)


def edit(project: Project, **changes: Any) -> None:
    """Change what the one record says of its launch."""
    (run,) = project.runs()
    record = json.loads((run / "run.json").read_bytes())
    record["launch"].update(changes)
    (run / "run.json").write_text(json.dumps(record))


def test_only_the_repeats_that_a_cell_lacks_are_run(begun: Project) -> None:
    done = begun.runner(*ADDED)
    assert done.code == 0, done.snapshot
    assert repeats(begun) == [(1, "completed"), (2, "completed"), (3, "completed")]
    again = begun.runner(*ADDED)
    assert (again.code, "no repeat is missing" in again.stderr, len(begun.runs())) == (0, True, 3)


def test_a_repeat_with_other_args_is_none_of_the_cell(begun: Project) -> None:
    edit(begun, args={"seed": 99})
    done = begun.runner("run", "tiny", "--missing")
    assert (done.code, "1x1: args" in done.stderr, len(begun.runs())) == (2, True, 1)


def test_a_repeat_that_failed_is_made_again(project: Project) -> None:
    project.define(matrix={"layout": ["1x1"]})
    project.program("toys.ok", OK + "\n    raise SystemExit(os.path.exists('fails'))\n")
    (project.root / "fails").touch()
    assert project.runner("run", "tiny").code == 1
    (project.root / "fails").unlink()
    assert project.runner("run", "tiny", "--missing").code == 0
    assert repeats(project) == [(1, "completed"), (1, "failed")]


EDITED = {
    "machine": {"host": {"machine": "0" * 32}},
    "image": {"image": {"id": "sha256:1"}},
    "options of the target": {"options": {"a": 1}},
}


@pytest.mark.parametrize("what", ["code of toys.ok", "args", *EDITED])
def test_what_differs_from_the_repeats_that_are_there_is_named_and_nothing_is_run(begun: Project, what: str) -> None:
    words: tuple[str, ...] = ADDED
    if what == "code of toys.ok":
        begun.program("toys.ok", OK + "    # another line\n")
    elif what == "args":
        words = (*ADDED, "--set", "epochs=2")
    else:
        edit(begun, **EDITED[what])
    assert f"1x1: {what}: " in begun.refused(*words)
    assert len(begun.runs()) == 1


def test_other_data_are_named_once_a_run_has_read_them(project: Project) -> None:
    project.define(matrix={"layout": ["1x1"]})
    read = 'log.point("dataset", "x", data_sha256=open("data.txt").read())\n        log.point("global_batch_size"'
    project.program("toys.ok", OK.replace('log.point("global_batch_size"', read))
    (project.root / "data.txt").write_text("1")
    assert project.runner("run", "tiny").code == 0
    (project.root / "data.txt").write_text("2")
    done = project.runner("run", "tiny", "--repeat", "2", "--missing")
    assert done.code == 1
    assert "1x1: data: " in done.stderr
    assert repeats(project) == [(1, "completed"), (2, "completed")]
