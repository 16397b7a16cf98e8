"""The toy on several processes."""

import pytest

from tests.experiments.conftest import Launch, good


def test_each_rank_has_its_own_noise_and_all_have_one_model(plain: Launch) -> None:
    ended = good(plain("toy.ddp", 3, "--steps", "5", "--lr", "0.05"))
    losses = ended.values("loss")
    assert len(set(losses)) == 3
    assert ended.stats["final_loss"] == pytest.approx(sum(losses) / 3)
    assert len(set(ended.values("parameters"))) == 1
    assert ended.first("epoch_stop")["metadata"]["trained_samples"] == 300
    assert ended.stderr.count(", local rank ") == 3
