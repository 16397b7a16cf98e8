"""How a failed first run is explained: the program's words, the hint, and the same command again."""

from pathlib import Path

import pytest

from runner.records.schema import Failure, Record
from runner.tools.init.trial import Trial
from runner.tools.init.way_out import describe
from tests.support.records import Make

RUN, INIT = "runner run train.py", "runner init"
NO_MODULE = "ModuleNotFoundError: No module named "


@pytest.mark.parametrize(
    ("code", "lines", "hint", "words"),
    [
        (1, [f"{NO_MODULE}'lost.net'"], None, ["lost", "install it"]),
        (1, [f"{NO_MODULE}'mine.net'"], None, ['add path = ["src"] to [tool.runner]']),
        (1, ["[rank0]: RuntimeError: DataLoader worker (pid(s) 7)"], "shared-memory", [": RuntimeError", "/dev/shm"]),
        (
            1,
            ["Missing: no 'huge'", "Options in 'model':", "big", "small"],
            None,
            ["'huge' Options in 'model': big small"],
        ),
        (1, ["bye"], None, ["bye", f"{RUN} -- ARGS"]),
        (2, ["train.py: error: unrecognized arguments: --epoch 3"], None, ["arguments: --epoch 3", f"{RUN} -- ARGS"]),
    ],
)
def test_a_failure_is_explained_with_the_way_out(
    make: Make, tmp_path: Path, code: int, lines: list[str], hint: str | None, words: list[str]
) -> None:
    (tmp_path / "src" / "mine").mkdir(parents=True)
    failure = Failure(0, 0, code, None, lines, lines[0].removeprefix("[rank0]: "), hint)
    trial = Trial(Record(launch=make.launch(), status="failed", failure=failure), tmp_path)
    for command, given in ((RUN, RUN), (INIT, f"{INIT} train.py")):
        told, _ = describe(trial, tmp_path, "train.py", command)
        assert all(word.replace(RUN, given) in told for word in words), told
