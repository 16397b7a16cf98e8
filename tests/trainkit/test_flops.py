"""FLOPs of a step and the peak of a device: what torch counts is what the layers do, and nothing else changes."""

import json
from argparse import Namespace
from typing import Any

import pytest
import torch
from torch import nn

from trainkit.flops import Work, matmul_peak
from trainkit.run import Run


@pytest.fixture
def work() -> Work:
    return Work(Run("toys.ok", Namespace(device="cpu", threads=1)))


def reported(printed: str) -> dict[str, dict[str, Any]]:
    events = [json.loads(line.removeprefix(":::MLLOG ")) for line in printed.splitlines() if line.startswith(":::")]
    return {event["key"]: event for event in events}


def test_the_flops_of_a_step_are_those_of_its_matrix_products(work: Work, capfd: pytest.CaptureFixture[str]) -> None:
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    with work.counted(32):
        model(torch.zeros(32, 784)).sum().backward()
    forward = 2 * (784 * 128 + 128 * 64 + 64 * 10)
    assert work.flops_per_unit == 3 * forward - 2 * 784 * 128  # the gradient of the input is not computed
    event = reported(capfd.readouterr().out)["step_flops"]
    assert (event["value"], event["metadata"]["units"]) == (32 * work.flops_per_unit, 32)


def test_the_peak_is_what_a_product_takes_and_no_random_number_of_the_training_is_drawn() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state(), torch.backends.cuda.matmul.allow_tf32
    peak = matmul_peak(torch.device("cpu"), torch.float32, 0.1)
    assert 1e8 < peak < 1e14
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.backends.cuda.matmul.allow_tf32 == before[1]
