"""Parts of batches, and types that a backend cannot sum."""

import pytest
import torch

from tests.trainkit.conftest import Script
from trainkit.sharding import Batch


@pytest.mark.parametrize(("samples", "count", "sizes"), [(7, 3, [2, 2, 3]), (2, 4, [1, 1]), (7, 1, [7])])
def test_a_batch_in_parts_has_every_sample_once(samples: int, count: int, sizes: list[int]) -> None:
    batch = Batch(torch.arange(samples), samples, 50)
    cut = batch.parts(count)
    assert [part.samples for part in cut] == [len(part.labels) for part in cut] == sizes
    assert torch.equal(torch.cat([part.labels for part in cut]), batch.labels)
    assert {part.global_samples for part in cut} == {50}
    padding = Batch(torch.zeros(1), 0, 1)
    assert padding.parts(4) == [padding]


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


def test_a_type_that_the_backend_cannot_sum_is_refused(script: Script) -> None:
    ended = script(UNSUPPORTED, 2)
    assert "--communication int16" in ended.error
    assert ended.told("run_stop", "status") == ["aborted"] * 2
