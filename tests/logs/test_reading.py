"""Logs become facts: what they say with its line, and None for what they do not say."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.logs import mlperf
from runner.logs.summary import FIELDS
from tests.support.logs import read_text

MNIST = (
    "Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.300039\n"
    "Train Epoch: 1 [59520/60000 (99%)]\tLoss: 0.136184\n"
    "\nTest set: Average loss: 0.0469, Accuracy: 9848/10000 (98%)\n\n"
)


def read(text: str | bytes) -> dict[str, Any]:
    found = read_text(text)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


def event(time_ms: int, key: str, value: object = None, **metadata: object) -> str:
    line = {"namespace": "", "time_ms": time_ms, "event_type": "POINT_IN_TIME", "key": key, "value": value}
    return f":::MLLOG {json.dumps({**line, 'metadata': metadata})}\n"


def value(found: dict[str, Any], field: str) -> Any:
    return found[field] and found[field]["value"]


def test_what_a_log_does_not_say_is_none() -> None:
    found = read("Downloading the data\nProcessing...\nDone with it\n")
    assert {field: found[field] for field in FIELDS} == dict.fromkeys(FIELDS)
    assert "known dialect" in found["notes"][0]
    assert "empty" in read("")["notes"][0]


def test_each_value_has_the_line_that_it_came_from() -> None:
    found = read("some words\n" + MNIST)
    assert found["last_train_loss"] == {"value": 0.136184, "scope": "last logged batch", "line": 3}
    assert found["final_eval"]["line"] == 5
    assert (found["final_eval"]["value"], found["final_eval"]["unit"]) == (98.48, "percent")
    assert found["lines"]["epochs_seen"] == [2]
    assert found["dialects"] == {"pytorch-mnist": 3}


def test_an_epoch_that_is_named_twice_is_counted_once() -> None:
    found = read("Epoch 1/2\nepoch 0: loss 0.5\nEpoch 2/2\nepoch 1: loss 0.3\n")
    assert (found["epochs_seen"], found["epochs_declared"]) == ([1, 2], 2)


def test_an_mlperf_run_is_read_from_its_events() -> None:
    lines = [
        event(500, "submission_benchmark", "dlrm_dcnv2"),
        event(1_000, "run_start"),
        event(1_500, "epoch_start", epoch_num=1),
        event(2_000, "eval_accuracy", 0.8131, epoch_num=0.5),
        event(3_000, "eval_accuracy", 0.8031, epoch_num=1.0),
        event(4_250, "run_stop", status="success"),
    ]
    found = read("".join(f"0: {line}" for line in lines))
    assert value(found, "timestamps_span_s") == 3.25
    assert (found["final_eval"]["metric"], value(found, "final_eval"), found["epochs_seen"]) == ("auc", 0.8031, [1])
    assert found["timestamps_span_s"]["line"] == [2, 6]
    assert (value(found, "best_eval"), found["best_eval"]["scope"]) == (0.8131, "best of 2, epoch 0.5")


@pytest.mark.parametrize(("number", "known"), [(8, 8), (-4, None), (0, None), (0.5, None), ("-4", None), (True, None)])
def test_a_number_of_processes_below_one_is_none(number: object, known: int | None) -> None:
    for key, field in (("number_of_ranks", "world_size"), ("number_of_nodes", "nnodes")):
        assert read(event(500, key, number) + event(1_000, "run_start"))[field] == known


def test_evaluations_within_each_other_are_read_however_deep() -> None:
    deep: object = 0.5
    for _ in range(1_200):
        deep = {"value": deep}
    assert mlperf.evaluation(deep) == (0.5, None)


def test_of_several_writers_the_lowest_rank_speaks() -> None:
    text = "[1] Finished training it 16/16 of epoch 0, 1.0 ms/it, loss 0.7, accuracy 48.6 %[1] \n"
    text = text.replace("[1]", "[0]").replace("0.7", "0.5") + text
    found = read(text)
    assert value(found, "last_train_loss") == 0.5
    worker, master = "mnist-worker-0-1  | ", "mnist-master-0-1  | "
    found = read(worker + MNIST.splitlines()[0] + "\n" + master + MNIST.splitlines()[1] + "\n" + worker + MNIST)
    assert value(found, "last_train_loss") == 0.136184


def test_two_lines_in_one_are_both_read() -> None:
    found = read("epoch: 1, loss: 0.5\nTrain Epoch: 1 [0/9 (0%)]\tLoss: 2.5Train Epoch: 2 [8/9 (99%)]\tLoss: 0.5\n")
    assert found["epochs_seen"] == [1, 2]
    assert value(found, "last_train_loss") == 0.5


def test_each_state_of_a_progress_bar_is_a_line_with_the_prefix_of_its_first() -> None:
    bar = "Epoch 1/2: {0}%|##| {0}/100 [00:05<00:00, 90.1it/s, loss=0.{0}]"
    states = "\b\b\r".join(bar.format(n) for n in range(10, 101)) + "\n"
    found = read("[rank1]: Epoch 1/2, Loss: 0.9\n[rank0]: " + states + "[rank1]: Epoch 1/2, Loss: 0.8\n")
    assert found["last_train_loss"] == {"value": 0.1, "scope": "last state of the progress bar", "line": 2}
    assert found["dialects"]["tqdm"] == 91


def test_what_follows_on_a_progress_bar_in_its_line_has_the_prefix_of_the_line() -> None:
    found = read("[rank0]: epoch: 1, loss: 9\n[rank1]: 10%|\b\b\r20%|\r epoch: 1, loss: 3\n")
    assert (value(found, "last_train_loss"), found["dialects"]) == (9, {"epoch-losses": 2})


def run(at: int) -> str:
    return event(at, "run_start") + event(at + 1, "eval_accuracy", 0.5) + event(at + 2, "run_stop", status="success")


BAR = "1/1 [=====] - 1s 2ms/step - loss: 0.{} - val_loss: 0.4\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (run(1_000) + run(2_000), "lines 1 and 4:"),
        ("Epoch 1/1, Loss: 0.9\nEpoch 1/1, Loss: 0.1\n", "lines 1 and 2:"),
        ("Epoch 1/5\n" + BAR.format(5) + "Epoch 1/5\n" + BAR.format(4), "lines 1 and 3:"),
        (
            "Epoch 1/5\n" + BAR.format(5) + "Epoch 1/5\n" + BAR.format(4) + "Epoch 2/5\n" + BAR.format(3),
            "lines 1 and 3:",
        ),
        ("".join(f"Epoch {n}/2, Loss: 0.{n}\n" for n in (1, 2, 1)), "lines 1 and 3:"),
        (
            "Epoch [1/1], Step [9/9], Loss: 0.5\nFinished Training\nEpoch [1/1], Step [9/9], Loss: 0.9\n",
            "lines 1 and 3:",
        ),
    ],
)
def test_of_two_trainings_no_figure_is_taken_and_the_note_names_both_lines(text: str, lines: str) -> None:
    found = read(text)
    assert not any(
        found[field] for field in ("status", "epochs_seen", "last_train_loss", "final_eval", "timestamps_span_s")
    )
    assert any(note.startswith(lines) for note in found["notes"])


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"[rank{rank}]: Epoch 1/1, Loss: 0.5\n" for rank in (0, 1)),
        "world size: 2\n" + "Epoch 1/1, Loss: 0.5\n" * 2,
        "".join(f"Epoch {n}/2\n{BAR.format(5)}" for n in (1, 1, 2, 2)),
        "Epoch 1/2, Loss: 0.7\n" * 3 + "Epoch 2/2, Loss: 0.5\n",
        "".join(f"[rank{rank}]: {line}\n" for rank in (0, 1) for line in (run(1) + "Epoch 1/1, Loss: 0.5").split("\n")),
    ],
)
def test_an_epoch_that_each_rank_names_is_of_one_training(text: str) -> None:
    assert value(read(text), "last_train_loss") == 0.5


def test_a_traceback_before_run_stop_is_a_note() -> None:
    found = read(event(1, "run_start") + "Traceback (most recent call last):\nKeyError: 'a'\n" + run(2).split("\n")[2])
    assert (found["status"], found["notes"][-1]) == ("completed", "line 3 says: KeyError: 'a'")


def test_values_that_contradict_each_other_are_kept_and_none_is_chosen() -> None:
    found = read("local rank: 0, world size: 8\nlocal rank: 0, world size: 4\n")
    assert found["world_size"] is None
    assert "contradictory world_size: 8 in line 1, 4 in line 2" in found["notes"]


def test_a_loss_that_is_no_number_is_not_replaced_by_an_earlier_one() -> None:
    found = read("epoch: 1, loss: 0.5\nepoch: 2, loss: nan\n")
    assert found["last_train_loss"] == {"value": None, "scope": "printed as nan", "line": 2}


def test_times_come_from_stamps_or_from_the_dates_of_a_job_script() -> None:
    stamped = "".join(f"2024-10-08T13:25:{29 + n}Z INFO     {line}\n" for n, line in enumerate(MNIST.split("\n")[:2]))
    assert value(read("2024-10-08T13:25:01Z INFO world size: 4\n" + stamped), "timestamps_span_s") == 1
    for text in ("Wed Nov 20 01:46:38 2024\n" + MNIST, stamped.splitlines()[0] + "\n"):
        assert read(text)["timestamps_span_s"] is None


def test_source_code_in_a_log_is_no_result() -> None:
    source = 'dist.init_process_group(backend="nccl")\nprint(f"step:{step}/{n} train_loss:{loss:.4f}")\n'
    source += "# WORLD_SIZE is set\n        self, params, lr=0.02, rank=0, world_size=1\n"
    found = read(source + "step:1/1 train_loss:3.5 train_time:9ms step_avg:9.0ms\n")
    assert (found["backend"], found["world_size"]) == (None, None)
    assert value(found, "last_train_loss") == 3.5


def test_a_log_of_many_blocks_is_read_to_its_end_and_noise_between_is_no_matter() -> None:
    noise = b"worker 3: read 128 files of the set\n" * 20_000
    head = b"Using distributed PyTorch with gloo backend\n"
    found = read(head + noise + MNIST.encode() + noise + b"Training completed in 12.5 seconds\n")
    assert (found["backend"], value(found, "wall_time_s"), value(found, "final_eval")) == ("gloo", 12.5, 98.48)
    assert found["wall_time_s"]["line"] == found["line_count"] == 40_007
    assert found["status"] == "completed"


PARTS = (
    "epoch=|Epoch |step:|loss|train_loss:|Accuracy: |[rank1]:|3/20|0.5|1e999|nan|1,234|97.1%|0:03:59|%s|\0|\x1b[2J|\n"
)
PIECES = st.sampled_from([*PARTS.encode().split(b"|"), b"\xff\xfe", b":::MLLOG ", b"9" * 400]) | st.binary(max_size=20)


@pytest.mark.slow
@given(st.lists(PIECES, max_size=40).map(b"".join))
@settings(max_examples=300, deadline=None)
def test_any_bytes_become_an_object(data: bytes) -> None:
    read(data)
