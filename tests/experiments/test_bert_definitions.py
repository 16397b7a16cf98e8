"""The definitions of BERT run, on a tiny model; and the real thing, measured."""

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
    for record in found:
        once = record["launch"]["program"] == "bert.ddp"
        assert [epoch["trained_samples"] for epoch in record["epochs"]] == [361 if once else 362]
        assert [test["samples"] for test in record["evaluations"]] == [41 if once else 42]
        assert (record["metrics"].get("leaked_share", 0) > 0.7) == (not once)
    assert len(found) == programs


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
    # In bf16 it takes a quarter of the time, where the processor computes in it.
    precision = "bf16" if "avx512_bf16" in Path("/proc/cpuinfo").read_text() else "fp32"
    less = ["--precision", precision, "--last-layer", "first-token", "--vocabulary", "used"]
    words = ["--data-dir", str(tmp_path), "--epochs", "1", "--lr", "1.5e-4", *less, "--warmup-steps", "0"]
    done = start(["-m", "experiments.bert.ddp", *words], 2, {})
    assert done.code == 0, done.stderr
    assert done.first("eval_accuracy")["value"] > 0.7
    assert done.first("epoch_stop")["metadata"]["padding"] < 0.1
    assert len(done.first("dataset")["metadata"]["data_sha256"]) == 64
