"""The division of an epoch's seconds: complete, right, and without effect on the training."""

import copy
import io
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tests.experiments.conftest import SHORT_PEAK, good, start
from tests.trainkit.conftest import Script
from trainkit.ddp_time import _Hook
from trainkit.throttling import quota_throttling
from trainkit.time_use import COMPUTE, DATA, EXCHANGE, LEFT_OUT, OTHER, TimeUse

PARTS = ("data_seconds", "compute_seconds", "communication_seconds", "straggler_seconds", "other_seconds")
ROUNDED = 1e-6
DIGITS = ("--dataset", "digits", "--epochs", "2", "--batch-size", "256", *SHORT_PEAK)
BY_PROCESSOR = """
import sys, time
from importlib import import_module
time.monotonic = time.process_time  # stands still while other processes run
import_module(sys.argv.pop()).main()
"""
NOT_WATCHED = """
import trainkit.session
trainkit.session.find_ddp = lambda time_use: print("not watched", flush=True) or (lambda: None)
from experiments.mnist import ddp
ddp.main()
"""


@pytest.mark.slow
def test_the_parts_add_up_to_the_training(script: Script) -> None:
    ended = good(script(BY_PROCESSOR, 2, *DIGITS, "experiments.mnist.manual"))
    found = [epoch for epoch in ended.told("epoch_stop") if epoch["epoch_num"] == 2]
    for epoch in found:
        assert sum(epoch[part] for part in PARTS) == pytest.approx(epoch["train_seconds"], rel=0.02)
        assert min(epoch[part] for part in PARTS) >= 0
        assert epoch["other_seconds"] < 0.05 * epoch["train_seconds"]
        exchanging = epoch["communication_seconds"] + epoch["straggler_seconds"]  # how it divides is by chance
        assert exchanging > 0.001 * epoch["train_seconds"]
        assert 0 < epoch["cpu_share"] < 2
    assert any(epoch["slowest_share"] > 0 for epoch in found)


@pytest.mark.slow
def test_losses_and_parameters_are_the_same_bit_for_bit_without_watching(script: Script) -> None:
    words = [*DIGITS, "--epochs", "1", "--model", "conv3-bn"]
    plain = good(script(NOT_WATCHED, 2, *words))
    watched = good(start(["-m", "experiments.mnist.ddp", *words], 2))
    assert watched.losses == plain.losses != []
    assert watched.first("parameters")["value"] == plain.first("parameters")["value"]
    assert plain.stdout.count(b"not watched") == 2


def test_the_parts_of_an_epoch_are_those_between_its_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    held = SimpleNamespace(monotonic=lambda: now[0], process_time=time.process_time)
    monkeypatch.setattr("trainkit.time_use.time", held)
    use = TimeUse(torch.device("cpu"))
    use.begin(COMPUTE)  # ignored before an epoch
    use.open()
    for kind, seconds in ((DATA, 1.0), (COMPUTE, 20.0), (EXCHANGE, 300.0), (LEFT_OUT, 4000.0), (OTHER, 0.5)):
        use.begin(kind, ends_step=kind == OTHER)
        now[0] += seconds
    use.close()
    found = use.result(321.5)
    assert [found[part] for part in PARTS] == pytest.approx([1.0, 20.0, 300.0, 0.0, 0.5], abs=ROUNDED)


def test_copies_and_files_of_a_watched_model_have_hooks_that_do_nothing() -> None:
    called: list[object] = []
    model = nn.Linear(2, 2)
    model.register_forward_pre_hook(_Hook(lambda *_: called.append(1)))
    stored = io.BytesIO()
    torch.save(model, stored)
    stored.seek(0)
    for other in (copy.deepcopy(model), torch.load(stored, weights_only=False)):
        other(torch.ones(1, 2))
    assert called == []
    model(torch.ones(1, 2))
    assert called == [1]


@pytest.mark.parametrize(
    ("files", "groups", "seconds"),
    [
        ({"own": "usage_usec 7\nnr_throttled 3\nthrottled_usec 1500000\n"}, "0::/own\n", 1.5),
        # Version 1 below a root without a quota, on a machine that also has version 2.
        (
            {"cpu": "throttled_time 0\n", "cpu/own": "throttled_time 3500000000\n", "unified": ""},
            "2:cpuset:/\n1:cpu:/own\n0::/\n",
            3.5,
        ),
        ({"own": "throttled_usec x\n"}, "no such thing", None),
    ],
)
def test_throttling_by_a_quota_is_read_from_both_versions_of_cgroups(
    files: dict[str, str], groups: str, seconds: float | None, tmp_path: Path
) -> None:
    for folder, text in files.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "cpu.stat").write_text(text)
    own = tmp_path / "own-groups"
    own.write_text(groups)
    found = quota_throttling(tmp_path, own)
    assert (found() if found else None) == seconds
