"""The files for continuous integration: valid by the schemas of their services, and those for other people run."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.support.projects import OK, ROOT, Ended, Project, complete
from tests.support.repository import git
from tests.support.slow import slow_but

FILES = {
    "docs/ci/github.yml": "github-workflows",
    "docs/ci/gitlab.yml": "gitlab-ci",
    ".github/workflows/ci.yml": "github-workflows",
}
"""Each file, and the name of its schema."""


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load((ROOT / "docs" / "ci" / f"{name}.yml").read_text("utf-8"))
    return found


@pytest.mark.parametrize(("name", "schema"), FILES.items())
def test_a_file_is_valid_by_the_schema_of_its_service(name: str, schema: str) -> None:
    done = complete([sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", ROOT / name])
    assert done.code == 0, done.stdout + done.stderr


def scripts() -> dict[str, str]:
    """What compares, as each service's shell gets it."""
    steps = read("github")["jobs"]["compare"]["steps"]
    (compare,) = [step["run"] for step in steps if step.get("id") == "compare"]
    return {"github": compare, "gitlab": read("gitlab")["training-speed"]["script"][-1]}


def says(seconds: float) -> str:
    """The project's program, which says that its training took so long."""
    return OK.replace("1.0 + rank / 4", f"{seconds} + (os.getpid() % 7) / 1000")


def run_script(project: Project, text: str, experiment: str, base: str) -> Ended:
    """Run a script as its service does."""
    env = project.environment({"EXPERIMENT": experiment, "BASE": base})
    env |= {"GITHUB_STEP_SUMMARY": str(project.root / "summary"), "GITHUB_OUTPUT": str(project.root / "output")}
    env["PATH"] = f"{Path(project.command).parent}{os.pathsep}{env['PATH']}"
    return complete(["bash", "-e", "-o", "pipefail", "-c", text], project.root, env)


@pytest.mark.parametrize(
    ("name", "seconds", "verdict", "code"),
    slow_but([("github", 1.5, "slower", 1)], [("github", 1.5, "slower", 1), ("gitlab", 0.8, "faster", 0)]),
)
def test_the_script_compares_a_branch_with_its_base_and_leaves_the_table(
    project: Project, name: str, seconds: float, verdict: str, code: int
) -> None:
    root = project.root
    project.define(matrix={"layout": ["1x1"]}, name="train")
    (root / ".gitignore").write_text("__pycache__/\nresults/\n")
    git(root, "init", "-q", "-b", "main")
    for branch, taken in (("main", 1.0), ("change", seconds)):
        if branch != "main":
            git(root, "switch", "-q", "-c", branch)
        project.program("toys.ok", says(taken))
        git(root, "add", ".")
        git(root, "commit", "-qm", branch)
    done = run_script(project, scripts()[name], "train", "main")
    table = (root / "comparison.md").read_text("utf-8")
    assert re.search(rf"(?m)^\| 1x1 \| 6 \| .* \| {verdict} \|$", table), done.stderr + table
    if name == "github":
        assert (done.code, (root / "output").read_text()) == (0, f"code={code}\n")
        assert (root / "summary").read_text("utf-8") == table
    else:
        assert (done.code, table in done.stdout) == (code, True)
