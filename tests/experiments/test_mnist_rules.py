"""What the published scripts got wrong, in small: their way fails, ours does not."""

from argparse import Namespace

import pytest
import torch
from torch.optim import SGD
from torch.optim.lr_scheduler import StepLR

from experiments.mnist.model import MODELS
from experiments.mnist.training import set_learning_rate
from trainkit import distributed
from trainkit.distributed import Place
from trainkit.epochs import global_batch_size
from trainkit.errors import Refusal


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("conv2-fc500", 1_007_590),
        ("conv3-bn", 1_181_642),
        ("lenet-relu", 57_026),
        ("mlp-128-64", 109_386),
        ("conv2-dropout2d", 21_840),
    ],
)
def test_a_model_has_its_source_s_size_and_returns_raw_logits(name: str, parameters: int) -> None:
    torch.manual_seed(1)
    model = MODELS[name]()
    logits = model(torch.randn(4, 1, 28, 28))
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    assert logits.shape == (4, 10)
    assert (logits < 0).any()  # no ReLU on them, as the source of lenet-relu has
    assert not torch.allclose(logits.exp().sum(dim=1), torch.ones(4))  # and no softmax


def test_the_device_is_counted_on_the_node_not_over_all() -> None:
    second_node = Place(rank=3, world_size=4, local_rank=1, local_world_size=2, node_rank=1)
    assert str(distributed.choose_device("cuda", second_node)) == "cuda:1"
    assert str(distributed.choose_device("cpu", second_node)) == "cpu"


def test_strong_and_weak_scaling_mean_different_global_batches() -> None:
    assert global_batch_size(Namespace(batch_size=64, scaling="strong"), 4) == 64
    assert global_batch_size(Namespace(batch_size=64, scaling="weak"), 4) == 256
    assert global_batch_size(Namespace(batch_size=1, scaling="weak"), 4) == 4
    with pytest.raises(Refusal, match="3 cannot be shared by 4 processes"):
        global_batch_size(Namespace(batch_size=3, scaling="strong"), 4)


def test_the_learning_rate_follows_a_named_rule_only_and_its_steps_are_those_of_step_lr() -> None:
    optimizer, other = (SGD(MODELS["mlp-128-64"]().parameters(), lr=0.01) for _ in range(2))
    fixed = Namespace(lr=0.01, lr_rule="none", lr_step_epochs=0, lr_gamma=0.1)
    assert set_learning_rate(optimizer, fixed, epoch=9, workers=8) == 0.01
    linear = Namespace(lr=0.01, lr_rule="linear", lr_step_epochs=0, lr_gamma=0.1)
    assert set_learning_rate(optimizer, linear, epoch=9, workers=8) == 0.08
    assert optimizer.param_groups[0]["lr"] == 0.08
    schedule = StepLR(other, step_size=5, gamma=0.1)
    stepped = Namespace(lr=0.01, lr_rule="none", lr_step_epochs=5, lr_gamma=0.1)
    for epoch in range(1, 12):
        assert set_learning_rate(optimizer, stepped, epoch, workers=1) == pytest.approx(schedule.get_last_lr()[0])
        other.step()
        schedule.step()
