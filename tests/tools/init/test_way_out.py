"""What a person is told of a first run that failed: the words of the program, the hint, and the same command again."""

from pathlib import Path

import pytest

from runner.records.schema import Failure, Record
from runner.tools.init.trial import Trial
from runner.tools.init.way_out import describe
from tests.support.records import Make

NAME = "runner run train.py"


def said(make: Make, tmp_path: Path, failure: Failure, command: str = NAME) -> str:
    trial = Trial(Record(launch=make.launch(), status="failed", failure=failure), tmp_path)
    return describe(trial, tmp_path, "train.py", command)[0]


def test_a_module_that_is_missing_is_looked_for_in_the_project(make: Make, tmp_path: Path) -> None:
    cause = "ModuleNotFoundError: No module named 'mine.net'"
    assert ": install it for " in said(make, tmp_path, Failure(0, 0, 1, None, [cause], cause))
    (tmp_path / "src" / "mine").mkdir(parents=True)
    assert 'add path = ["src"] to [tool.runner]' in said(make, tmp_path, Failure(0, 0, 1, None, [cause], cause))


def test_the_hint_of_its_record_is_shown(make: Make, tmp_path: Path) -> None:
    lines = ["[rank0]: RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly"]
    failure = Failure(0, 0, 1, None, lines, lines[0].removeprefix("[rank0]: "), "shared-memory")
    told = said(make, tmp_path, failure)
    assert "first run: RuntimeError: DataLoader worker" in told
    assert "; hint shared-memory: /dev/shm" in told


def test_all_of_what_an_exception_says_is_shown(make: Make, tmp_path: Path) -> None:
    lines = ["x.MissingConfigException: Could not find 'model/huge'", "Available options in 'model':", "big", "small"]
    assert "'model/huge' Available options in 'model': big small; " in said(
        make, tmp_path, Failure(0, 0, 1, None, lines, lines[0])
    )


@pytest.mark.parametrize(("command", "given"), [(NAME, NAME), ("runner init", "runner init train.py")])
def test_what_the_script_says_of_its_arguments_is_shown_with_the_way_to_give_them(
    make: Make, tmp_path: Path, command: str, given: str
) -> None:
    cause = "train.py: error: unrecognized arguments: --epoch 3"
    told = said(make, tmp_path, Failure(0, 0, 2, None, ["usage: train.py [-h]", cause], cause), command)
    assert told == f"train.py: unrecognized arguments: --epoch 3; its arguments come last: {given} -- ARGS"
    other = said(make, tmp_path, Failure(0, 0, 1, None, ["bye"]), command)
    assert f"or give it arguments: {given} -- ARGS" in other
