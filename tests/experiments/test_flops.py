"""Programs report what part of the devices' peak they used, and learn the same, to the bit, as without."""

from collections.abc import Callable
from typing import Any

import pytest

Launch = Callable[..., Any]
WORDS = ("--epochs", "1", "--batch-size", "479", "--model", "lenet-relu")


def stats(ended: Any) -> dict[str, float]:
    assert ended.code == 0, ended.stderr
    value: dict[str, float] = ended.first("tracked_stats")["value"]
    return value


@pytest.mark.slow
def test_the_programs_report_the_same_flops_a_sample(launch: Launch) -> None:
    cases = (("single", None), ("data_parallel", None), ("ddp", 2), ("manual", 2))
    runs = {program: launch(f"mnist.{program}", processes, *WORDS) for program, processes in cases}
    each = {
        (program, event["value"] / event["metadata"]["units"])
        for program, ended in runs.items()
        for event in ended.all("step_flops")
    }
    assert {program for program, _ in each} == set(runs)
    assert len({flops for _, flops in each}) == 1
    [flops] = {flops for _, flops in each}
    for ended in runs.values():
        told = stats(ended)
        slowest = max(event["value"].get("train_seconds", 0) for event in ended.all("tracked_stats"))
        peaks = [event["value"] for event in ended.all("matmul_peak")]
        assert told["peak_flops_per_second"] == pytest.approx(sum(peaks))
        assert told["flops_per_second"] == pytest.approx(flops * 1438 / slowest)
        assert 0 < told["input_seconds"] < told["train_seconds"]


@pytest.mark.slow
@pytest.mark.parametrize(("program", "processes"), [("single", None), ("ddp", 2), ("data_parallel", None)])
def test_neither_the_peak_nor_the_count_changes_a_bit_of_what_is_learnt(
    launch: Launch, program: str, processes: int | None
) -> None:
    words = ("--epochs", "1", "--batch-size", "719", "--model", "conv2-dropout2d")
    with_both = launch(f"mnist.{program}", processes, *words)
    without = launch(f"mnist.{program}", processes, *words, "--peak-milliseconds", "0", "--warmup-steps", "0")
    assert with_both.losses == without.losses
    assert len(with_both.losses) == 2
    assert with_both.first("parameters")["value"] == without.first("parameters")["value"]
    assert "flops_per_second" in stats(with_both)
    assert "flops_per_second" not in stats(without)
    assert not without.all("matmul_peak")


def test_bert_counts_positions_because_its_batches_differ_in_length(launch_bert: Launch) -> None:
    one = launch_bert("bert.ddp", 2, "--epochs", "1", "--batch-size", "64")
    told = stats(one)
    assert told["flops_per_second"] > 0
    sentences = one.all("epoch_stop")[0]["metadata"]["samples"]
    assert one.first("step_flops")["metadata"]["units"] % 32 == 0 < sentences


@pytest.mark.slow
def test_the_halves_of_a_split_model_do_the_flops_of_the_whole_one(plain: Launch) -> None:
    words = ("--batch-size", "4", "--image-size", "32", "--batches", "2", "--peak-milliseconds", "20")
    whole, split = plain("resnet50.whole", None, *words), plain("resnet50.split", None, *words)
    assert whole.first("step_flops")["value"] == split.first("step_flops")["value"] > 1e9
    assert stats(split)["peak_flops_per_second"] == split.first("matmul_peak")["value"]
