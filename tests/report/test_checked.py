"""What `runner check` said stands beside the claims of the experiment."""

from pathlib import Path

import pytest

from runner.records.checked import Check, keep
from runner.report.notes import notes
from runner.report.summarize import summarize
from runner.tools.pages.files import write_report
from tests.support.records import Make
from tests.tools.pages.conftest import make_scaling

OTHER = "but with other code or arguments than those of these runs"


@pytest.fixture
def scaling(results: Path, make: Make) -> tuple[str, str, str]:
    """Runs at 1x1 and 1x2: the name of their experiment, the hash of their code, and their program."""
    make_scaling(results, make, {"1x1": [10.0, 10.1, 10.2], "1x2": [6.0, 6.1, 6.2]})
    (block,) = summarize(results)[0]
    return block.first.experiment, block.first.same["code"].split()[0], block.first.program


def said(results: Path) -> list[str]:
    (block,) = summarize(results)[0]
    return [note for note in notes(block) if "checked" in note]


def test_the_newest_verdict_is_named_with_its_mistakes_and_whether_it_is_of_the_same_code(
    results: Path, scaling: tuple[str, str, str]
) -> None:
    name, code, program = scaling
    assert said(results) == []
    keep(results, name, 2, Check("differs", code, program, {}, ["train.py:3: overlap", "train.py:9: leak"]))
    assert said(results) == ["1x2: checked: another training than one process: train.py:3: overlap; train.py:9: leak"]
    keep(results, name, 2, Check("same", code, program))
    keep(results, name, 3, Check("unknown", code, program))
    assert said(results) == ["1x2: checked: same training"]
    keep(results, name, 2, Check("same", code, program, not_checked=["clipping"]))
    assert said(results) == ["1x2: checked: same training; not compared: clipping"]
    keep(results, name, 2, Check("same", "of other code", program))
    assert said(results) == [f"1x2: checked: same training, {OTHER}"]
    keep(results, name, 2, Check("same", code, "another.program"))
    assert said(results) == []


def test_arguments_that_were_others_in_the_check_are_named(results: Path, scaling: tuple[str, str, str]) -> None:
    name, code, program = scaling
    args = summarize(results)[0][0].first.args
    key = next(iter(args))
    keep(results, name, 2, Check("same", code, program, {**args, key: 77, "unknown": 1}))
    assert said(results) == [f"1x2: checked: same training, {OTHER}"]


def test_the_page_draws_how_far_the_gradients_are_off(
    results: Path, scaling: tuple[str, str, str], tmp_path: Path
) -> None:
    keep(results, scaling[0], 2, Check("same", "", "", {}, [], [4e-8, 5e-8], 3e-8))
    write_report([results], tmp_path / "page.html", experiment=None, plots=None)
    said = "all batches by: 2 processes: 4.0e-08, and 3.0e-08 by another order of them."
    assert said in (tmp_path / "page.html").read_text("utf-8")
