"""Programs are found with their source files, and their command line is written."""

from dataclasses import replace
from pathlib import Path

import pytest

from runner.core.errors import RequestError
from runner.definitions import program
from runner.definitions.program import Program
from tests.support.projects import Project


@pytest.mark.parametrize(
    "words", ["from ..... import x", "from . import one", "import experiments", "from experiments import *"]
)
def test_imports_that_lead_nowhere_or_in_a_circle_are_passed_over(project: Project, words: str) -> None:
    project.program("toys.one", f"{words}\nparser.add_argument('--device')\n")
    assert program.find(project.root, "toys.one").declares == ("device",)


@pytest.mark.parametrize(("source", "line"), [("\n\nx =\n", 3), ("\0", 1), ("# \udcff", 1)])
def test_a_source_that_is_no_python_is_refused_at_its_line(project: Project, source: str, line: int) -> None:
    path = project.program("toys.one", "")
    path.write_bytes(source.encode("utf-8", "surrogateescape"))
    with pytest.raises(RequestError, match=f"one.py:{line}: .* Python"):
        program.find(project.root, "toys.one")


ARGS = {
    "batch_size": 8, "lr": -1e-3, "name": "", "amp": True, "off": False, "none": None, "zero": 0, "tag": ["a", 2],
    "-b": 4, "model=": "big", "fast=": False, "--": ["eval", "-x"],
}  # fmt: skip


@pytest.mark.parametrize(("files", "name"), [((), "--batch-size"), (("train.py",), "--batch_size")])
def test_arguments_are_words(files: tuple[str, ...], name: str) -> None:
    assert Program("p", Path("p.py"), files=files).argv(ARGS) == [
        name, "8", "--lr=-0.001", "--name", "", "--amp", "--zero", "0", "--tag", "a", "--tag", "2",
        "-b", "4", "model=big", "fast=false", "eval", "-x",
    ]  # fmt: skip


def test_the_path_of_a_script_is_neither_an_option_of_torchrun_nor_a_pattern(project: Project) -> None:
    (project.root / "-train.py").touch()
    found = program.find(project.root, "-train.py")
    assert found.words == ["./-train.py"]
    assert replace(found, alone=True).words == ["-m", "trainkit.alone", "./-train.py"]
    (project.root / "experiments" / "toys" / "[x].py").touch()
    for name in ("**.py", "a/**.py", "?.py"):
        with pytest.raises(RequestError, match="does not exist"):
            program.find(project.root, name)
    with pytest.raises(RequestError, match=r"from the project's folder: experiments/toys/\[x\]\.py"):
        program.find(project.root, "[x].py")
