"""The real thing, measured: the model and batch of a100-ddp on the real MNIST."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data" / "mnist"


@pytest.mark.mnist
def test_an_epoch_of_a100_ddp_reaches_95_percent_with_one_process_and_with_two(tmp_path: Path) -> None:
    if not DATA.is_dir():
        message = "no real MNIST in data/mnist; `make data` fetches it"
        assert "mnist" not in os.environ.get("KIT_REQUIRE", ""), message
        pytest.skip(message)
    runner = str(Path(sys.executable).with_name("runner"))
    words = ["run", "mnist", "--only", "layout=1x1,1x2", "--repeat", "1", "--set", "epochs=1", "--device", "cpu"]
    done = subprocess.run(
        [runner, *words, "--results", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    text = subprocess.run([runner, "summarize", str(tmp_path), "--format", "json"], capture_output=True, check=True)
    rows = json.loads(text.stdout)
    assert [row["layout"] for row in rows] == ["1x1", "1x2"]
    for row in rows:
        assert row["accuracy"] > 0.95
        assert row["n"] == 1
        assert row["claimed"] is not True  # once is not enough
        assert {line["hardware"] for line in row["published"]} >= {"1x A100", "1x V100"} or row["layout"] == "1x2"
