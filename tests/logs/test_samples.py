"""Real logs of other people with the truth beside each, read by eye; they are not part of the project."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from runner.logs.reading import read_log
from runner.logs.summary import summary

SAMPLES = os.environ.get("KIT_STDOUT_SAMPLES", "")
TRUTHS = sorted(Path(SAMPLES).glob("*.json")) if SAMPLES else []


def parts(truth: Any, found: Any) -> tuple[Any, Any]:
    """What can be compared: a value, its metric and its unit; scopes and texts are prose."""
    if not isinstance(truth, dict) or not isinstance(found, dict):
        return truth, found
    keys = [key for key in ("value", "metric", "unit") if key in truth]
    unit = str(truth.get("unit", "")).partition(" ")[0]
    return {key: unit if key == "unit" else truth[key] for key in keys}, {key: found.get(key) for key in keys}


@pytest.mark.skipif(not SAMPLES, reason="KIT_STDOUT_SAMPLES names no folder of logs with their truth")
@pytest.mark.parametrize("path", TRUTHS, ids=[path.stem for path in TRUTHS])
def test_a_real_log_says_exactly_what_a_reader_found_in_it(path: Path) -> None:
    found = summary(path.stem, read_log(path.with_suffix(".log")))
    truth = json.loads(path.read_text("utf-8"))["truth"]
    assert len(truth) > 10
    for field, expected in truth.items():
        wanted, got = parts(expected, found[field])
        assert got == wanted or (field == "status" and got is None), field  # a reader knows what no line says


@pytest.mark.skipif(not SAMPLES, reason="KIT_STDOUT_SAMPLES names no folder of logs with their truth")
def test_there_are_samples() -> None:
    assert len(TRUTHS) >= 10
