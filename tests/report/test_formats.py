"""Rows -> table, csv, json, markdown: golden files, and the fields that are a promise."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.cli.terminal import print_table
from runner.report import formats as report
from runner.report.rows import Block
from runner.report.summarize import summarize
from tests.support.records import Make

GOLDEN = Path(__file__).parent / "golden"
FIGURES = "seconds seconds_low seconds_high speedup speedup_low speedup_high efficiency accuracy".split()
PROMISED = ["experiment", "target", "layout", "axes", "n", *FIGURES, "claimed"]
"""Names of fields that scripts rely on, in their order."""
PUBLISHED = {
    "source": "seed-0, section MNIST",
    "rows": [
        {"layout": "1x1", "hardware": "1x A100", "total_seconds": 170.24, "accuracy": 0.989},
        {"layout": "1x2", "hardware": "2x A100", "total_seconds": 96.8, "speedup": 1.9},
        {"layout": "1x2", "hardware": "A100 + T4", "train_loss": [2.0, 0.5], "val_loss": [1.9, 0.6]},
    ],
}


@pytest.fixture
def blocks(tmp_path: Path, make: Make) -> list[Block]:
    """Two experiments: one good and measured, one with everything that may go wrong."""
    for one, two in ((10.0, 6.0), (10.2, 6.3), (9.9, 5.8)):
        make.run(tmp_path, one, accuracy=0.95)
        make.run(tmp_path, two, accuracy=0.951, layout="1x2")
    definition = {
        "name": "odd",
        "summary": "What | goes wrong, éverything",
        "matrix": {"layout": ["1x1", "1x2"], "backend": ["gloo", "m|x"]},
        "skip": [{"layout": "2x2", "why": "needs two nodes"}],
        "published": PUBLISHED,
    }
    for layout, backend, seconds, stdout in (
        ("1x1", "gloo", 2000.0, None),
        ("1x2", "gloo", 1500.0, None),
        ("2+3", "m|x", 1500.0, None),
        ("1x2", "gloo", 0.0, {0: b"[rank0] nothing"}),
    ):
        odd = {"experiment": "odd", "definition": definition, "scaling": "weak", "axes": {"backend": backend}}
        make.run(tmp_path, seconds, stdout=stdout, layout=layout, **odd)
    found, notes = summarize(tmp_path)
    assert not notes
    return found


GOLDEN_FILES = {"table": "txt", "markdown": "md", "csv": "csv", "json": "json", "latex": "tex"}


@pytest.mark.parametrize("form", report.FORMS)
def test_each_form_is_its_golden_file(
    blocks: list[Block],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    golden: Callable[..., None],
) -> None:
    if form == "table":
        monkeypatch.setenv("COLUMNS", "180")
        for block in blocks:
            print_table(report.to_table(block))
        text = "\n".join(line.rstrip() for line in capsys.readouterr().out.split("\n"))
    else:
        text = report.document(form, blocks)
    text = re.sub(r"\d{8}T\d{6,}Z-local-[0-9a-f]{8}", "<time>-local-<id>", text)  # it counts all runs of these tests
    golden(GOLDEN / f"summary.{GOLDEN_FILES[form]}", text)


def test_rows_for_scripts_have_the_promised_fields_and_null_for_what_is_not_there(make: Make, tmp_path: Path) -> None:
    make.run(tmp_path, stdout={})
    blocks, _ = summarize(tmp_path)
    (row,) = json.loads(report.document("json", blocks))
    assert list(row)[: len(PROMISED)] == PROMISED
    assert {row[name] for name in FIGURES} == {None}
    assert (row["n"], row["claimed"]) == (0, "no complete run")
    (text,) = csv.DictReader(io.StringIO(report.document("csv", blocks)))
    assert {text[name] for name in FIGURES} == {""}
    assert list(text) == list(row) == next(csv.reader([report.document("csv", [])]))
    assert json.loads(report.document("json", [])) == []
