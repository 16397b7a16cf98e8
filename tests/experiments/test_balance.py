"""Runs with `--balance`, on digits."""

import pytest

from tests.experiments.conftest import SHORT_PEAK, Ended, Launch, good, start
from tests.experiments.test_communication import SGD, same

SMALL = ("--epochs", "2", "--batch-size", "64", "--model", "mlp-128-64")
SLOWED = """
import os, sys, time
seconds = [float(word) for word in sys.argv.pop().split(",")]
import experiments.mnist.ddp as program
whole, taken = program.cross_entropy, [0.0]
def slowed(logits, labels, **words):
    taken[0] += seconds[int(os.environ["RANK"])] * len(labels)
    return whole(logits, labels, **words)
program.cross_entropy = slowed
time.monotonic = lambda: taken[0]
program.main()
"""
"""Each rank takes so many seconds per sample, by a clock that nothing else moves."""


def told(ended: Ended) -> list[float]:
    """Return each rank's part of the whole."""
    [event] = ended.all("balance")
    shares = [int(word) for word in event["value"].split(",")]
    return [share / sum(shares) for share in shares]


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Two ranks, the second a third as fast."""
    path = tmp_path_factory.mktemp("slowed") / "slowed.py"
    path.write_text(SLOWED)
    words = ["--dataset", "digits", *SHORT_PEAK, *SMALL, "--balance", "measured", "0.004,0.012"]
    return good(start([str(path), *words], 2))


@pytest.mark.slow
def test_a_slow_rank_gets_the_smaller_share(measured: Ended) -> None:
    assert told(measured) == pytest.approx([0.75, 0.25], rel=0.1)
    samples = measured.told("epoch_stop", "samples")
    assert samples == pytest.approx([1078, 1078, 360, 360], rel=0.12)
    busy = measured.told("epoch_stop", "compute_seconds")
    assert 0 < max(busy) < 1.2 * min(busy)


@pytest.mark.slow
def test_a_run_with_measured_shares_says_what_repeats_it_bit_for_bit(measured: Ended, train: Launch) -> None:
    [event] = measured.all("repeat_with")
    again = train("mnist.ddp", 2, *SMALL, "--balance", event["value"]["balance"])
    assert good(again).losses == measured.losses
    assert set(again.values("parameters")) == {event["value"] for event in measured.all("parameters")}
    assert not again.all("repeat_with")
    assert told(again) == told(measured)


@pytest.mark.slow
@pytest.mark.parametrize("words", [("--accumulate", "2"), ("--communication", "local-sgd", "--sync-every", "1")])
def test_with_unequal_shares_gradients_are_the_mean_over_all_samples(train: Launch, words: tuple[str, ...]) -> None:
    alone = train("mnist.ddp", 1, *SGD, *words)
    shared = train("mnist.ddp", 3, *SGD, *words, "--balance", "5,1,2")
    same(alone, shared)
    counts = shared.told("epoch_stop", "samples")
    assert counts[0] > 4 * counts[2] > 0  # two epochs of each rank


@pytest.mark.parametrize("words", [("2,1,1",), ("measured", "--warmup-steps", "0")])
def test_shares_that_cannot_be_are_refused_before_the_processes_meet(train: Launch, words: tuple[str, ...]) -> None:
    ended = train("mnist.ddp", 2, *SGD, "--balance", *words)
    assert f"--balance {words[0]}: " in ended.error
    assert not ended.all("init_start")
