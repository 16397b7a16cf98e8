"""Every definition of the project runs: on the digits, for one epoch, with one process and with several."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RUNNER = str(Path(sys.executable).with_name("runner"))
LAYOUTS = {
    "quickstart": "1x1,1x2",
    "mnist": "1x1,2+3",
    "mnist-backends": "1x1,1x2",
    "mnist-cpu": "1x1,1x8",
    "mnist-strategies": "1x1,1x2",
}
ELSEWHERE = {"bert", "bert-leak"}
"""Definitions that need other data; tests/test_bert.py runs them."""


def test_every_definition_is_run_here() -> None:
    assert set(LAYOUTS) | ELSEWHERE == {path.stem for path in (ROOT / "experiments").glob("*.yaml")}


@pytest.mark.parametrize(("name", "layouts"), LAYOUTS.items())
def test_a_definition_trains_in_each_layout_and_counts_every_sample_once(
    name: str, layouts: str, tmp_path: Path
) -> None:
    words = ["--only", f"layout={layouts}", "--repeat", "1", "--set", "dataset=digits", "--set", "epochs=1"]
    done = subprocess.run(
        [RUNNER, "run", name, *words, "--device", "cpu", "--results", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    records = [json.loads(path.read_bytes()) for path in tmp_path.glob("*/*/run.json")]
    assert {record["launch"]["layout"] for record in records} == set(layouts.split(","))
    for record in records:
        assert record["status"] == "completed"
        assert [epoch["trained_samples"] for epoch in record["epochs"]] == [1438]
        assert sum(record["epochs"][0]["samples_by_rank"].values()) == 1438
        assert [one["samples"] for one in record["evaluations"]] == [359]
        assert len({rank["facts"]["threads"] for rank in record["ranks"]}) == 1
