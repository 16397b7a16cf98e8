"""The definitions of BERT on a tiny model, and one epoch on real data."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.experiments.conftest import start
from tests.experiments.test_definitions import need, run_small
from tests.support.smallest import BERT

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data" / "bert"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "programs"), [("bert", 1), ("bert-slow-link", 1), ("bert-leak", 2)])
def test_a_definition_of_bert_trains(name: str, programs: int, reviews: Path, tmp_path: Path) -> None:
    found = run_small(name, BERT[name], tmp_path, f"data_dir={reviews}")
    assert len(found) == programs
    for record in found:
        leaks = record["launch"]["program"] != "bert.ddp"
        assert record["epochs"][0]["trained_samples"] == 361 + leaks
        assert record["evaluations"][0]["samples"] == 41 + leaks
        assert (record["metrics"].get("leaked_share", 0) > 0.7) == leaks


@pytest.mark.bert
def test_one_epoch_on_a_sixth_of_the_real_sentences_tells_seven_of_ten_rightly(tmp_path: Path) -> None:
    need("bert", "no sentences and model in data/bert; `runner prepare bert` fetches them")
    folder = tmp_path / "bert" / "sentences"
    folder.mkdir(parents=True)
    (folder.parent / "model").symlink_to(DATA / "model")
    prepared = json.loads((DATA / "sentences" / "prepared.json").read_bytes())
    for name in prepared["files"]:
        part = b"".join((DATA / "sentences" / name).read_bytes().splitlines(keepends=True)[:900])
        (folder / name).write_bytes(part)
        prepared["files"][name] = hashlib.sha256(part).hexdigest()
    (folder / "prepared.json").write_text(json.dumps(prepared))
    # bf16 takes a quarter of the time on processors that support it.
    precision = "bf16" if "avx512_bf16" in Path("/proc/cpuinfo").read_text() else "fp32"
    less = ["--precision", precision, "--last-layer", "first-token", "--vocabulary", "used"]
    words = ["--data-dir", str(tmp_path), "--epochs", "1", "--lr", "1.5e-4", *less, "--warmup-steps", "0"]
    done = start(["-m", "experiments.bert.ddp", *words], 2)
    assert done.code == 0, done.stderr
    assert done.first("eval_accuracy")["value"] > 0.7
    assert done.first("epoch_stop")["metadata"]["padding"] < 0.1
