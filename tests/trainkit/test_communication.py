"""Batches in parts, and what a backend cannot add up."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.experiments.conftest import start
from trainkit import sharding


@dataclass(frozen=True)
class Batch(sharding.Batch):
    images: Tensor


@pytest.mark.parametrize(("samples", "count", "sizes"), [(7, 3, [2, 2, 3]), (2, 4, [1, 1]), (7, 1, [7])])
def test_a_batch_in_parts_has_every_sample_once(samples: int, count: int, sizes: list[int]) -> None:
    batch = Batch(torch.arange(samples), samples, 50, torch.arange(samples * 2.0).view(samples, 2))
    cut = batch.parts(count)
    assert [part.samples for part in cut] == [len(part.images) for part in cut] == sizes
    assert torch.equal(torch.cat([part.labels for part in cut]), batch.labels)
    assert torch.equal(torch.cat([part.images for part in cut]), batch.images)
    assert {part.global_samples for part in cut} == {50}
    stand_in = Batch(torch.zeros(1), 0, 1, torch.zeros(1, 2))  # with which a rank without samples takes part
    assert stand_in.parts(4) == [stand_in]


UNSUPPORTED = """
from argparse import Namespace
import torch
from trainkit.communication.exchange import require_type
from trainkit.run import running
with running("mnist.ddp", Namespace(device="cpu", threads=1, backend="gloo")) as run:
    run.join()
    require_type(run, torch.float16, "fp16")
    require_type(run, torch.int16, "int16")
"""


def test_a_type_that_the_backend_cannot_add_up_is_refused_in_one_line(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNSUPPORTED)
    ended = start([str(script)], 2, {})
    assert ended.error.startswith("error: --communication int16: the gloo backend of torch")
    assert "cannot add up int16" in ended.error
    assert ended.told("run_stop", "status") == ["aborted"] * 2
