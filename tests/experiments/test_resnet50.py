"""ResNet50 whole, split and as a pipeline, on a CPU that replaces both devices."""

from argparse import Namespace
from typing import Any

import pytest

from experiments.resnet50.arguments import require_sense, resnet_parser
from tests.experiments.conftest import SHORT_PEAK, Launch, good
from trainkit.errors import Refusal

TINY = ("--batch-size", "4", "--image-size", "32", "--batches", "2", *SHORT_PEAK)
UNEVEN = ("--batch-size", "5", "--image-size", "33", "--batches", "2", "--micro-batches", "2", *SHORT_PEAK)
COLD = ("--warmup-batches", "0")


def losses(ended: Any) -> list[float]:
    return good(ended).values("batch_loss")


@pytest.mark.slow
@pytest.mark.parametrize(("program", "words", "more"), [("split", TINY, ()), ("pipelined", UNEVEN, COLD)])
def test_a_split_model_learns_what_the_whole_one_does(plain: Launch, program: str, words: Any, more: Any) -> None:
    # Only the whole one warms up, which leaves no trace.
    whole, cut = plain("resnet50.whole", None, *words), plain(f"resnet50.{program}", None, *words, *more)
    assert losses(cut) == pytest.approx(losses(whole), rel=1e-5)
    assert losses(whole)[0] != losses(whole)[1]
    if program == "split":
        assert cut.first("step_flops")["value"] == whole.first("step_flops")["value"] > 1e9
    assert [run.first("run_start")["metadata"]["devices"] for run in (cut, whole)] == [2, 1]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"batch_size": 2, "micro_batches": 3}, "--micro-batches 3"),
        ({"batch_size": 1, "image_size": 32}, "BatchNorm"),
        ({"profile": True}, "--profile"),
        ({"devices": 3}, "--devices 3"),
    ],
)
def test_impossible_trainings_are_refused(changes: dict[str, Any], text: str) -> None:
    args = vars(resnet_parser(None).parse_args([]))
    with pytest.raises(Refusal, match=text):
        require_sense(Namespace(**{**args, **changes}))
