"""The FLOPs of a step and the peak of a device."""

import json
from argparse import Namespace

import pytest
import torch
from torch import nn

from trainkit.flops import Work, matmul_peak
from trainkit.run import Run


def test_the_flops_of_a_step_are_those_of_its_matrix_products(capfd: pytest.CaptureFixture[str]) -> None:
    work = Work(Run("toys.ok", Namespace(device="cpu", threads=1)))
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    with work.counted(32):
        model(torch.zeros(32, 784)).sum().backward()
    forward = 2 * (784 * 128 + 128 * 10)
    assert work.flops_per_unit == 3 * forward - 2 * 784 * 128  # no gradient of the input
    event = json.loads(capfd.readouterr().out.strip().removeprefix(":::MLLOG "))
    assert (event["key"], event["value"], event["metadata"]["units"]) == ("step_flops", 32 * work.flops_per_unit, 32)


def test_measuring_the_peak_leaves_the_random_numbers_of_the_training_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state(), torch.backends.cuda.matmul.allow_tf32
    peak = matmul_peak(torch.device("cpu"), torch.float32, 0.1)
    assert 1e8 < peak < 1e14
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.backends.cuda.matmul.allow_tf32 == before[1]
