"""Rules that the published scripts break: model outputs, devices, batch sizes, learning rates."""

from argparse import Namespace

import pytest
import torch
from torch.optim import SGD

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
def test_a_model_has_its_source_s_size_and_returns_logits(name: str, parameters: int) -> None:
    torch.manual_seed(1)
    model = MODELS[name]()
    logits = model(torch.randn(4, 1, 28, 28))
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    assert logits.shape == (4, 10)
    assert (logits < 0).any()  # the source of lenet-relu ends with a ReLU
    assert not torch.allclose(logits.exp().sum(dim=1), torch.ones(4))  # not log_softmax


def test_the_device_is_chosen_by_the_local_rank() -> None:
    second_node = Place(rank=3, world_size=4, local_rank=1, local_world_size=2, node_rank=1)
    assert str(distributed.choose_device("cuda", second_node)) == "cuda:1"


def test_strong_and_weak_scaling_mean_different_global_batches() -> None:
    assert global_batch_size(Namespace(batch_size=64, scaling="strong"), 4) == 64
    assert global_batch_size(Namespace(batch_size=64, scaling="weak"), 4) == 256
    with pytest.raises(Refusal, match="3 cannot be shared by 4"):
        global_batch_size(Namespace(batch_size=3, scaling="strong"), 4)


def test_the_learning_rate_follows_its_rule_and_its_steps() -> None:
    optimizer = SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    for rule, step_epochs, epoch, rate in (
        ("none", 0, 9, 0.01),
        ("linear", 0, 9, 0.08),
        ("none", 5, 5, 0.01),
        ("none", 5, 6, 0.001),
        ("none", 5, 11, 0.0001),
    ):
        args = Namespace(lr=0.01, lr_rule=rule, lr_step_epochs=step_epochs, lr_gamma=0.1)
        assert set_learning_rate(optimizer, args, epoch, workers=8) == pytest.approx(rate)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(rate)
