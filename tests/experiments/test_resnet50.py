"""ResNet50 whole, split and as a pipeline; on a CPU, which stands for both devices."""

from argparse import Namespace
from collections.abc import Callable
from typing import Any

import pytest

from experiments.resnet50.arguments import require_sense, resnet_parser
from tests.experiments.conftest import SHORT_PEAK, good
from trainkit.errors import Refusal

Launch = Callable[..., Any]
TINY = ("--batch-size", "4", "--image-size", "32", "--batches", "2", *SHORT_PEAK)
UNEVEN = ("--batch-size", "5", "--image-size", "33", "--batches", "2", "--micro-batches", "2", *SHORT_PEAK)
COLD = ("--warmup-batches", "0")


def losses(ended: Any) -> list[float]:
    return good(ended).values("batch_loss")


@pytest.mark.slow
@pytest.mark.parametrize(("program", "words", "more"), [("split", TINY, ()), ("pipelined", UNEVEN, COLD)])
def test_a_model_in_halves_learns_what_the_whole_one_does(plain: Launch, program: str, words: Any, more: Any) -> None:
    # The whole one warms up and the pipeline does not: that leaves nothing behind.
    whole, cut = plain("resnet50.whole", None, *words), plain(f"resnet50.{program}", None, *words, *more)
    assert len(losses(whole)) == 2
    assert losses(cut) == pytest.approx(losses(whole), rel=1e-5)
    assert losses(whole)[0] != losses(whole)[1]
    if program == "split":
        assert cut.first("step_flops")["value"] == whole.first("step_flops")["value"] > 1e9
        assert cut.stats["peak_flops_per_second"] == cut.first("matmul_peak")["value"]
    start = cut.first("run_start")["metadata"]
    assert (start["devices"], start["device"], whole.first("run_start")["metadata"]["devices"]) == (2, "cpu", 1)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"batch_size": 2, "micro_batches": 3}, "--micro-batches 3: a batch has 2 images only"),
        ({"batch_size": 1, "image_size": 32}, "BatchNorm needs two values a channel"),
        ({"profile": True}, "--profile writes a trace: name its folder with --artifacts"),
        ({"devices": 3}, "--devices 3: the model is cut in two"),
    ],
)
def test_what_cannot_be_trained_is_refused(changes: dict[str, Any], text: str) -> None:
    args = vars(resnet_parser(None).parse_args([]))
    with pytest.raises(Refusal, match=f"^{text}"):
        require_sense(Namespace(**{**args, **changes}))
