"""What a person is told of a first run that failed: the words of the program, the hint, and the same command again."""

from pathlib import Path

import pytest

from runner.definitions.options import Interface, Option
from runner.definitions.program import Program
from runner.records.schema import Failure, Record
from runner.tools.init.arguments import Again
from runner.tools.init.failure import describe
from runner.tools.init.trial import Trial
from tests.support.records import Make

NAME = "runner run train.py"
PROGRAM = Program("train.py", Path("train.py"), Interface("argparse", {"backend": Option("--backend")}))


def said(make: Make, tmp_path: Path, failure: Failure, *line: str) -> str:
    trial = Trial(Record(launch=make.launch(), status="failed", failure=failure), tmp_path)
    return describe(trial, tmp_path, "train.py", PROGRAM, Again(NAME, line))[0]


def test_the_hint_of_its_record_is_shown(make: Make, tmp_path: Path) -> None:
    lines = ["[rank0]: RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly"]
    failure = Failure(0, 0, 1, None, lines, lines[0].removeprefix("[rank0]: "), "shared-memory")
    told = said(make, tmp_path, failure)
    assert "first run: RuntimeError: DataLoader worker" in told
    assert "; hint shared-memory: /dev/shm" in told
    assert "--set" not in told


def test_all_of_what_an_exception_says_is_shown(make: Make, tmp_path: Path) -> None:
    lines = ["x.MissingConfigException: Could not find 'model/huge'", "Available options in 'model':", "big", "small"]
    assert "'model/huge' Available options in 'model': big small; " in said(
        make, tmp_path, Failure(0, 0, 1, None, lines, lines[0])
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [((), f"{NAME} --set backend=gloo"), (("--lr", "1 2"), f"{NAME} -- --lr '1 2' --backend gloo")],
    ids=["by --set", "behind --"],
)
def test_arguments_are_advised_in_the_way_in_which_they_were_given(
    make: Make, tmp_path: Path, line: tuple[str, ...], words: str
) -> None:
    cause = "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!"
    assert said(make, tmp_path, Failure(0, 0, 1, None, [cause], cause), *line).endswith(f"; try {words}")
    unknown = said(make, tmp_path, Failure(0, 0, 1, None, ["bye"]), *line)
    assert ("--set" in unknown) == (not line)
