"""Programs and the arguments that they take, read from their source."""

import argparse
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.capabilities import CAPABILITIES
from runner.core.errors import RequestError
from runner.definitions import program
from runner.definitions.options import Interface, Option
from runner.definitions.program import Program
from tests.support.projects import Project

OPTIONS = Interface(
    "argparse",
    {
        "batch_size": Option("--batch-size"),
        "lr": Option("--lr"),
        "name": Option("--name"),
        "quiet": Option("--quiet", "flag"),
        "amp": Option("--amp", "switch"),
    },
)


def test_arguments_are_read_from_the_source_and_from_what_it_imports(project: Project) -> None:
    project.program("toys.shared", "def add(parser):\n    parser.add_argument('--seed', '-s', type=int)\n")
    project.program("toys.more", "PARSER.add_argument('-w', '--warmup-steps', default=1)\n")
    project.program(
        "toys.one",
        """
        import experiments.toys.more
        from . import shared
        from experiments.toys.shared import add
        parser.add_argument("path")
        parser.add_argument("--model", choices=list(MODELS))
        parser.add_argument("--quiet", action="store_true")
        parser.add_argument("--amp", action=argparse.BooleanOptionalAction)
        parser.add_argument("--no-eval", dest="eval", action='store_false')
        raise RuntimeError("it is never run")
        """,
    )
    found = program.find(project.root, "toys.one")
    assert found.options == {
        "path": Option("path", required=True),
        "model": Option("--model"),
        "quiet": Option("--quiet", "flag", default=False),
        "amp": Option("--amp", "switch"),
        "no_eval": Option("--no-eval", "flag", default=True),
        "seed": Option("--seed", "int", aliases=("-s",)),
        "warmup_steps": Option("--warmup-steps", default=1, aliases=("-w",)),
    }
    assert found.words == ["-m", "experiments.toys.one"]
    assert found.argv({"quiet": True, "path": "a b", "model": None, "seed": 1}) == ["--quiet", "--seed", "1", "a b"]


@pytest.mark.parametrize(
    "words", ["from ..... import x", "from . import one", "import experiments", "from experiments import *"]
)
def test_imports_that_lead_nowhere_or_in_a_circle_are_passed_over(project: Project, words: str) -> None:
    project.program("toys.one", f"{words}\nparser.add_argument('--seed')\n")
    assert program.find(project.root, "toys.one").options == {"seed": Option("--seed")}


def test_only_modules_that_can_be_run_are_programs(project: Project) -> None:
    project.program("toys.shared", "x = 1\n")
    (project.root / "experiments" / "toys" / "folder.py").mkdir()
    assert program.names(project.root) == ["toys.ok"]


@pytest.mark.parametrize(("source", "line"), [("\n\nx =\n", 3), ("\0", 1), ("# \udcff", 1)])
def test_a_source_that_is_no_python_is_refused_at_its_line(project: Project, source: str, line: int) -> None:
    path = project.program("toys.one", "")
    path.write_bytes(source.encode("utf-8", "surrogateescape"))
    with pytest.raises(RequestError) as caught:
        program.find(project.root, "toys.one")
    assert str(caught.value).startswith(f"{path}:{line}: the program cannot be read as Python")


@pytest.mark.parametrize(
    "source",
    [
        "import click\n@click.command()\n@click.option('--x')\ndef main(x): ...\n",
        "from transformers import HfArgumentParser\nparser = HfArgumentParser(Own)\nparser.add_argument('--x')\n",
        "print(1)\n",
    ],
)
def test_without_the_tool_that_reads_other_libraries_only_args_of_argparse_are_checked(
    source: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CAPABILITIES, "readers", "tools.none.readers")
    project.program("toys.one", source)
    program.find(project.root, "toys.one").check("never_seen", 3)
    with pytest.raises(RequestError, match="program toys.ok takes no arg 'never_seen'"):
        program.find(project.root, "toys.ok").check("never_seen", 3)


def test_a_program_that_reads_its_command_line_by_hand_is_given_everything(project: Project) -> None:
    project.program("toys.one", "import sys\nprint(sys.argv)\n")
    found = program.find(project.root, "toys.one")
    found.check("anything", 5)
    assert found.argv({"batch_size": 8, "flag": True, "off": False, "none": None}) == [
        "--batch_size", "8", "--flag", "true", "--off", "false",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["-train.py", "--x/train.py"])
def test_a_script_whose_path_begins_with_a_hyphen_is_no_option_of_torchrun(project: Project, name: str) -> None:
    path = project.root / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    found = program.find(project.root, name)
    assert found.words == [f"./{name}"]
    assert replace(found, alone=True).words == ["-m", "trainkit.alone", f"./{name}"]


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "batch_size": st.integers(),
            "lr": st.floats(allow_nan=False),
            "name": st.text(),
            "quiet": st.booleans(),
            "amp": st.booleans(),
        },
    )
)
def test_argparse_reads_back_what_was_meant(args: dict[str, object]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--lr", type=float)
    parser.add_argument("--name")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
    read = vars(parser.parse_args(Program("p", None, OPTIONS).argv(args)))  # type: ignore[arg-type]
    assert read == {"batch_size": None, "lr": None, "name": None, "quiet": False, "amp": True, **args}


@pytest.mark.parametrize(
    ("option", "value", "meant"),
    [
        (Option("--n", "int"), "many", "a whole number"),
        (Option("--n", "int"), 1.5, "a whole number"),
        (Option("--n", "int"), True, "a whole number"),
        (Option("--lr", "float"), "fast", "a number"),
        (Option("--mode", "value", ("fast", "exact")), "slow", "one of fast, exact"),
        (Option("--amp", "switch"), 1, "true or false"),
        (Option("--lr", "float"), 3, None),
    ],
)
def test_a_value_that_the_program_would_refuse_is_refused_before(
    option: Option, value: object, meant: str | None
) -> None:
    assert option.refuses(value) == meant


def test_the_name_of_a_script_is_no_pattern(project: Project) -> None:
    (project.root / "experiments" / "toys" / "[x].py").touch()
    for name in ("**.py", "a/**.py", "?.py"):
        with pytest.raises(RequestError, match="does not exist"):
            program.find(project.root, name)
    with pytest.raises(RequestError, match=r"from the project's folder: experiments/toys/\[x\]\.py"):
        program.find(project.root, "[x].py")
