"""The documents run: every `$ command` of a console block, in a copy of the project, with the files that they show."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runner import definition
from runner.published import figures

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", "experiments/README.md", "CONTRIBUTING.md", "results/README.md")
COMMANDS = [
    (document, command)
    for document in DOCUMENTS
    for block in re.findall(r"```console\n(.*?)```", (ROOT / document).read_text("utf-8"), re.DOTALL)
    for command in re.findall(r"^\$ (.+)$", block, re.MULTILINE)
]
SHOWN = [
    (path, text)
    for document in DOCUMENTS
    for path, text in re.findall(r"`([\w/.]+)`:\n\n```\w+\n(.*?)```", (ROOT / document).read_text("utf-8"), re.DOTALL)
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the files that the documents tell one to write."""
    folder = tmp_path_factory.mktemp("the project's copy")
    shutil.copytree(ROOT / "experiments", folder / "experiments", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "results").mkdir()
    for path, text in SHOWN:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    return folder


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_the_documents_show_commands_and_files() -> None:
    assert len(COMMANDS) > 8
    assert {path for path, _ in SHOWN} == {"experiments/hello/train.py", "experiments/hello.yaml"}


@pytest.mark.parametrize(("document", "command"), COMMANDS, ids=[command for _, command in COMMANDS])
def test_a_command_of_the_documents_does_what_it_says(document: str, command: str, project: Path) -> None:
    done = run(command, project)
    assert done.returncode == 0, f"{document}: {done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr


def test_make_run_trains_and_ends_with_the_table_of_the_quickstart(tmp_path: Path) -> None:
    done = run(f"make run RESULTS='{tmp_path}/a b' VENV='{Path(sys.prefix)}'", ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r"^\| (1x[12]) \| 3 \| .* \| (\d\d\.\d\d)% \| (.*) \|$", done.stdout, re.MULTILINE)
    assert [layout for layout, _, _ in rows] == ["1x1", "1x2"]
    assert all(float(accuracy) > 95 for _, accuracy, _ in rows)


def test_every_folder_of_the_map_is_there_and_every_folder_is_on_the_map() -> None:
    named = set(re.findall(r"^\| `([\w.]+)/` \|", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE))
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert named == {path.partition("/")[0] for path in tracked.splitlines() if "/" in path}


def test_every_published_figure_stands_in_one_table_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text("utf-8").splitlines()
    wanted = []
    for path in definition.files(ROOT):
        resolved = definition.load(path, ROOT).resolved()
        axes = [axis for axis in resolved["matrix"] if axis != "layout"]
        for line in figures(resolved):
            cell = " ".join([resolved["name"], line["layout"], *(str(line[axis]) for axis in axes if axis in line)])
            place = f", {line['where']}" if "where" in line else ""
            printed = [f"{line['total_seconds']:g} s"] if "total_seconds" in line else []
            printed += [f"{line['speedup']:g} x"] if "speedup" in line else []
            printed += [f"{line['best_accuracy']:.2%} best"] if "best_accuracy" in line else []
            own = f"{line['computed_speedup']:.2f}" if "computed_speedup" in line else ""
            source = resolved["published"]["source"].partition(",")[0]
            wanted.append((f"| {source} | {cell} | {line['hardware']}{place} | ", ", ".join(printed), f" | {own} | "))
    assert len(wanted) > 20
    for beginning, printed, own in wanted:
        assert any(row.startswith(beginning + printed) and own in row for row in readme), (beginning, printed, own)


def test_every_module_of_the_runner_is_named_in_contributing() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    modules = {path.name for path in (ROOT / "runner").glob("*.py") if not path.name.startswith("__")}
    assert len(modules) > 20
    assert {name for name in modules if f"`{name}`" not in text} == set()


def test_the_experiments_of_the_readme_are_those_of_the_project() -> None:
    table = re.findall(r"^\| `([\w-]+)` \|", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert set(table) == {path.stem for path in (ROOT / "experiments").glob("*.yaml")}
