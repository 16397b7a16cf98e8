"""From a repository of other people to its first table, in three commands and without an edit of its code."""

import json
from typing import Any, NamedTuple

import pytest

from tests.support.repository import git
from tests.support.slow import slow_but
from tests.tools.init.conftest import Copy


class Layout(NamedTuple):
    repository: str
    name: str
    program: str
    dialect: str
    layouts: list[str]
    accuracy: bool


LAYOUTS = [
    Layout("src_layout", "train", "spirals.train", "epoch-losses", ["1x1", "1x2"], True),
    Layout("flat", "main", "main.py", "pytorch-mnist", ["1x1"], True),
]


@pytest.mark.parametrize("layout", slow_but(LAYOUTS[:1], LAYOUTS))
def test_three_commands_lead_to_the_first_table(copy: Copy, layout: Layout) -> None:
    project = copy(layout.repository)
    made = project.runner("init")
    assert made.code == 0, made.snapshot
    assert f"next: runner run {layout.name}\n" in made.stdout
    assert f"program: {layout.program}\n" in (project.root / f"experiments/{layout.name}.yaml").read_text()

    repeats = 3 if layout == LAYOUTS[0] else 1  # what all definitions say is tried once
    ran = project.runner("run", layout.name, "--repeat", str(repeats))
    assert ran.code == 0, ran.snapshot
    records = [project.record(path) for path in project.runs(layout.name)]
    assert len(records) == repeats * len(layout.layouts)
    assert {record["launch"]["measure"] for record in records} == {"sample_seconds"}
    assert {name for record in records for name in record["launch"]["dialects"]} == {layout.dialect}

    table = project.runner("summarize", "results/", "--format", "json")
    rows: list[dict[str, Any]] = json.loads(table.stdout)
    assert [row["layout"] for row in rows] == layout.layouts
    assert all(row["n"] == repeats and row["seconds"] > 0 for row in rows)
    assert all((row["accuracy"] is not None) == layout.accuracy for row in rows)
    # Nothing that was committed is other than it was, and results stay out of git.
    assert git(project.root, "diff", "--numstat") == ""
    assert "results" not in git(project.root, "status", "--porcelain", "--untracked-files=all")
