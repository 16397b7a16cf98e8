"""PowerSGD's algebra, batches in parts, and what a backend cannot add up."""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from tests.experiments.conftest import start
from trainkit import sharding
from trainkit.communication import gradients
from trainkit.communication.gradients import LowRank
from trainkit.communication.power_sgd import PowerSgd
from trainkit.time_use import EXCHANGE, TimeUse


def alone(_: Tensor) -> None:
    """The mean over one rank."""


def compressor(layers: nn.Module, rank: int) -> PowerSgd:
    return PowerSgd(layers.parameters(), rank, 1, alone)


def through(compress: PowerSgd, layers: nn.Module, gradients: list[Tensor]) -> list[Tensor]:
    found = [gradient.clone(memory_format=torch.preserve_format) for gradient in gradients]
    compress.average(list(layers.parameters()), found)
    return found


def random_gradients(layers: nn.Module, seed: int) -> list[Tensor]:
    draws = torch.Generator().manual_seed(seed)
    return [
        torch.empty_like(parameter).copy_(torch.randn(parameter.shape, generator=draws))
        for parameter in layers.parameters()
    ]


LAYERS = nn.Sequential(nn.Linear(40, 30), nn.Conv2d(16, 8, 3).to(memory_format=torch.channels_last))


def test_what_an_approximation_lacks_is_added_later_so_nothing_is_lost() -> None:
    compress = compressor(LAYERS, 3)
    given = [torch.zeros_like(parameter) for parameter in LAYERS.parameters()]
    taken = [torch.zeros_like(parameter) for parameter in LAYERS.parameters()]
    for seed in range(10):
        gradients = random_gradients(LAYERS, seed)
        for sums, more in ((given, gradients), (taken, through(compress, LAYERS, gradients))):
            for total, gradient in zip(sums, more, strict=True):
                total.add_(gradient)
    for _ in range(30):  # then nothing new: what was left comes out
        zeros = [torch.zeros_like(total) for total in given]
        for total, gradient in zip(taken, through(compress, LAYERS, zeros), strict=True):
            total.add_(gradient)
    for expected, found in zip(given, taken, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-2)


def test_comparing_the_parameters_of_the_ranks_counts_as_exchanging(monkeypatch: pytest.MonkeyPatch) -> None:
    time_use, hashed_in = TimeUse(torch.device("cpu")), []
    compare = object.__new__(LowRank)  # without a process group, which it would join
    compare.model = LAYERS
    compare._run = SimpleNamespace(exchanging=lambda: time_use.within(EXCHANGE))  # type: ignore[assignment]
    monkeypatch.setattr(gradients, "fingerprint", lambda _: hashed_in.append(time_use._kind) or 12 * "0")
    time_use.open()
    compare.synchronise()
    assert hashed_in == [EXCHANGE]


def test_an_approximation_has_its_rank_and_biases_are_exact() -> None:
    gradients = random_gradients(LAYERS, 1)
    weight, bias, kernel, _ = through(compressor(LAYERS, 3), LAYERS, gradients)
    assert torch.equal(bias, gradients[1])
    assert int(torch.linalg.matrix_rank(weight)) == 3
    assert int(torch.linalg.matrix_rank(kernel.flatten(1), rtol=1e-5)) == 3
    assert kernel.is_contiguous(memory_format=torch.channels_last)


def test_a_gradient_of_zeros_does_not_end_the_learning() -> None:
    compress = compressor(LAYERS, 3)
    zeros = [torch.zeros_like(parameter) for parameter in LAYERS.parameters()]
    for found in through(compress, LAYERS, zeros):
        assert not found.any()
    assert through(compress, LAYERS, random_gradients(LAYERS, 1))[0].any()


def test_two_starts_are_alike_and_a_restart_forgets() -> None:
    compress, gradients = compressor(LAYERS, 3), random_gradients(LAYERS, 1)
    first, second = (through(compress, LAYERS, gradients) for _ in range(2))
    compress.restart()
    again = through(compress, LAYERS, gradients)
    assert all(torch.equal(before, other) for before, other in zip(first, again, strict=True))
    assert not torch.equal(first[0], second[0])


def test_no_layer_is_compressed_that_would_not_become_smaller() -> None:
    # 30 x 40 = 1,200 numbers; at rank 17 its two matrices have 1,190, at rank 18 they have 1,260.
    layer = nn.Linear(40, 30)
    assert compressor(layer, 17).highest_rank == 17
    assert (compressor(layer, 17).compressed, compressor(layer, 18).compressed) == (1, 0)
    assert compressor(nn.LayerNorm(40), 1).highest_rank == 0


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
    assert [event["metadata"]["status"] for event in ended.all("run_stop")] == ["aborted"] * 2
