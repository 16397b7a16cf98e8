"""What the observer sees of trainings in many styles, held against what they count themselves."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.targets import local
from runner.targets.clean_environment import clean_environment
from tests.support.projects import ROOT
from tests.trainkit.observed.scripts import SCRIPTS

MARK = ":::MLLOG "
Runs = Callable[[str, Path], dict[str, Any]]


def environment(*, observed: bool) -> dict[str, str]:
    hooks = {"KIT_OBSERVE": str(ROOT / "trainkit" / "observer")} if observed else {}
    place = {"PYTHONPATH": f"{local._HOOKS}:{ROOT}", "OMP_NUM_THREADS": "1", "RANK": "0", "KIT_SEEN": "/dev/null/none"}
    return {**clean_environment(), **place, **hooks}


def zygote(*, observed: bool) -> Iterator[Runs]:
    words = [sys.executable, "-m", "tests.trainkit.observed.zygote"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    with subprocess.Popen(words, env=environment(observed=observed), **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def run(name: str, folder: Path) -> dict[str, Any]:
            folder.mkdir()
            print(name, folder, file=process.stdin, flush=True)
            line = next(line for line in process.stdout if line.strip().isdigit())
            assert line.strip() == "0", (folder / "stderr").read_text()
            return dict(json.loads((folder / "truth.json").read_text()))

        yield run
        process.stdin.close()


@pytest.fixture(scope="module")
def watched() -> Iterator[Runs]:
    yield from zygote(observed=True)


@pytest.fixture(scope="module")
def bare() -> Iterator[Runs]:
    yield from zygote(observed=False)


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line[len(MARK) :])["metadata"] for line in text.splitlines() if line.startswith(MARK)]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_count_is_exact_or_open_and_the_weights_are_as_without_it(
    name: str, watched: Runs, bare: Runs, tmp_path: Path
) -> None:
    truth = watched(name, tmp_path / "watched")
    assert truth == bare(name, tmp_path / "bare")
    text = (tmp_path / "watched" / "stdout").read_text()
    assert MARK not in (tmp_path / "bare" / "stdout").read_text()
    assert all(len(line) < 4096 for line in text.splitlines())
    last = {line["process"]: line for line in lines_of(text)}
    assert all(line["is_last"] for line in last.values())
    seen = max(last.values(), key=lambda line: line["steps"] or 0)
    for figure, value in truth.items():
        if figure in seen:
            assert seen[figure] == value, (figure, seen)
            if value is None and figure != "dataset_samples":
                assert seen["unknown"][figure]
