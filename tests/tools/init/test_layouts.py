"""From a repository of other people to its first table, in three commands and without an edit of its code."""

import json
from typing import Any

import pytest

from tests.support.repository import git
from tests.support.slow import slow_but
from tests.tools.init.conftest import Copy

LAYOUTS = [
    ("src_layout", "train", "spirals.train", "epoch-losses", ["1x1", "1x2"]),
    ("flat", "main", "main.py", "pytorch-mnist", ["1x1"]),
]


@pytest.mark.parametrize(("repository", "name", "program", "dialect", "layouts"), slow_but(LAYOUTS[:1], LAYOUTS))
def test_three_commands_lead_to_the_first_table(
    copy: Copy, repository: str, name: str, program: str, dialect: str, layouts: list[str]
) -> None:
    project = copy(repository)
    made = project.runner("init")
    assert made.code == 0, made.snapshot
    assert f"next: runner run {name}\n" in made.stdout
    assert f"program: {program}\n" in (project.root / f"experiments/{name}.yaml").read_text()

    repeats = 3 if repository == "src_layout" else 1
    ran = project.runner("run", name, *["--repeat=1"][: repeats == 1])  # else as all definitions say
    assert ran.code == 0, ran.snapshot
    records = [project.record(path) for path in project.runs(name)]
    assert len(records) == repeats * len(layouts)
    assert {record["launch"]["measure"] for record in records} == {"sample_seconds"}
    assert {name for record in records for name in record["launch"]["dialects"]} == {dialect}

    table = project.runner("summarize", "results/", "--format", "json")
    rows: list[dict[str, Any]] = json.loads(table.stdout)
    assert [row["layout"] for row in rows] == layouts
    assert all(row["n"] == repeats and row["seconds"] > 0 and row["accuracy"] is not None for row in rows)
    # Nothing that was committed is other than it was, and results stay out of git.
    assert git(project.root, "diff", "--numstat") == ""
    assert "results" not in git(project.root, "status", "--porcelain", "--untracked-files=all")
