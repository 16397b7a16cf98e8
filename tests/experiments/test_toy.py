"""The toy on one process and on several."""

import pytest

from tests.experiments.conftest import Launch, good

STEPS = 5


@pytest.mark.parametrize("world", [None, 3])
def test_each_rank_has_its_own_noise_and_all_have_one_model(plain: Launch, world: int | None) -> None:
    ended = good(plain("toy.ddp", world, "--steps", str(STEPS), "--lr", "0.05"))
    ranks, losses = world or 1, ended.values("loss")
    assert len(set(losses)) == ranks
    assert ended.stats["final_loss"] == pytest.approx(sum(losses) / ranks)
    assert len(set(ended.values("parameters"))) == 1
    assert ended.first("epoch_stop")["metadata"]["trained_samples"] == 20 * STEPS * ranks
    assert ended.stderr.count(", local rank ") == ranks
