"""Logs become facts, each with its line, and None if a log does not state them."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.logs import mlperf
from runner.logs.summary import FIELDS
from tests.support.logs import read_text


def read(text: str | bytes) -> dict[str, Any]:
    found = read_text(text)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


def event(time_ms: int, key: str, value: object = None, **metadata: object) -> str:
    return f":::MLLOG {json.dumps({'time_ms': time_ms, 'key': key, 'value': value, 'metadata': metadata})}\n"


def value(found: dict[str, Any], field: str) -> Any:
    return found[field] and found[field]["value"]


def test_a_fact_that_a_log_does_not_state_is_none() -> None:
    found = read("Downloading the data\nProcessing...\nDone with it\n")
    assert {field: found[field] for field in FIELDS} == dict.fromkeys(FIELDS)
    assert "known dialect" in found["notes"][0]
    assert "empty" in read("")["notes"][0]


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
    span, final, best = (found[field] for field in ("timestamps_span_s", "final_eval", "best_eval"))
    assert (span["value"], span["line"], found["epochs_seen"]) == (3.25, [2, 6], [1])
    assert (final["metric"], final["value"], best["value"]) == ("auc", 0.8031, 0.8131)
    assert best["scope"] == "best of 2, epoch 0.5"


@pytest.mark.parametrize("number", [-4, 0, 0.5, "-4", True, 8])
def test_a_number_of_processes_below_one_is_none(number: object) -> None:
    found = read("".join(event(500, key, number) for key in ("number_of_ranks", "number_of_nodes", "run_start")))
    assert found["world_size"] == found["nnodes"] == (8 if number == 8 else None)


def test_deeply_nested_evaluations_are_read() -> None:
    deep: object = 0.5
    for _ in range(1_200):
        deep = {"value": deep}
    assert mlperf.evaluation(deep) == (0.5, None)


def test_two_records_in_one_line_are_both_read() -> None:
    found = read("epoch: 1, loss: 0.5\nTrain Epoch: 1 [0/9 (0%)]\tLoss: 2.5Train Epoch: 2 [8/9 (99%)]\tLoss: 0.5\n")
    assert (found["epochs_seen"], value(found, "last_train_loss")) == ([1, 2], 0.5)


def test_each_state_of_a_progress_bar_is_a_line_with_the_prefix_of_its_first() -> None:
    bar = "Epoch 1/2: {0}%|##| {0}/100 [00:05<00:00, 90.1it/s, loss=0.{0}]"
    states = "\b\b\r".join(bar.format(n) for n in range(10, 101)) + "\n"
    found = read("[rank1]: Epoch 1/2, Loss: 0.9\n[rank0]: " + states + "[rank1]: Epoch 1/2, Loss: 0.8\n")
    assert found["last_train_loss"] == {"value": 0.1, "scope": "last state of the progress bar", "line": 2}
    assert found["dialects"]["tqdm"] == 91
    behind = read("[rank0]: epoch: 1, loss: 9\n[rank1]: 10%|\b\b\r20%|\r epoch: 1, loss: 3\n")
    assert (value(behind, "last_train_loss"), behind["dialects"]) == (9, {"epoch-losses": 2})


def run(at: int) -> str:
    return event(at, "run_start") + event(at + 1, "eval_accuracy", 0.5) + event(at + 2, "run_stop", status="success")


BAR = "1/1 [=====] - 1s 2ms/step - loss: 0.{} - val_loss: 0.4\n"
STEP = "Epoch [1/1], Step [9/9], Loss: 0.5\n"
EPOCH = "Epoch 1/5\n" + BAR.format(5)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (run(1_000) + run(2_000), 4),
        ("Epoch 1/1, Loss: 0.9\nEpoch 1/1, Loss: 0.1\n", 2),
        (EPOCH * 2, 3),
        (EPOCH * 2 + "Epoch 2/5\n" + BAR.format(3), 3),
        ("".join(f"Epoch {n}/2, Loss: 0.{n}\n" for n in (1, 2, 1)), 3),
        (STEP + "Finished Training\n" + STEP.replace("5", "9"), 3),
    ],
)
def test_of_two_trainings_no_figure_is_taken_and_the_note_names_both_lines(text: str, line: int) -> None:
    found = read(text)
    fields = ("status", "epochs_seen", "last_train_loss", "final_eval", "timestamps_span_s")
    assert not any(found[field] for field in fields)
    assert any(note.startswith(f"lines 1 and {line}:") for note in found["notes"])


@pytest.mark.parametrize(
    "text",
    [
        "world size: 2\n" + "Epoch 1/1, Loss: 0.5\n" * 2,
        "".join(f"Epoch {n}/2\n{BAR.format(5)}" for n in (1, 1, 2, 2)),
        "Epoch 1/2, Loss: 0.7\n" * 3 + "Epoch 2/2, Loss: 0.5\n",
        "".join(f"[rank{rank}]: {line}\n" for rank in (0, 1) for line in (run(1) + "Epoch 1/1, Loss: 0.5").split("\n")),
    ],
)
def test_an_epoch_that_each_rank_names_is_of_one_training(text: str) -> None:
    assert value(read(text), "last_train_loss") == 0.5


def test_a_traceback_before_run_stop_is_a_note() -> None:
    found = read("Traceback (most recent call last):\nKeyError: 'a'\n" + run(2))
    assert found["status"] == "completed"
    assert "line 2 says: KeyError: 'a'" in found["notes"]


def test_values_that_contradict_each_other_are_kept_and_none_is_chosen() -> None:
    found = read("local rank: 0, world size: 8\nlocal rank: 0, world size: 4\n")
    assert found["world_size"] is None
    assert any("contradictory" in note and "8 in line 1, 4 in line 2" in note for note in found["notes"])


def test_a_loss_that_became_nan_is_not_replaced_by_an_earlier_one() -> None:
    found = read("epoch: 1, loss: 0.5\nepoch: 2, loss: nan\n")
    assert found["last_train_loss"] == {"value": None, "scope": "printed as nan", "line": 2}


def test_source_code_in_a_log_is_no_result() -> None:
    source = 'dist.init_process_group(backend="nccl")\nprint(f"step:{step}/{n} train_loss:{loss:.4f}")\n'
    source += "# WORLD_SIZE is set\n        self, params, lr=0.02, rank=0, world_size=1\n"
    found = read(source + "step:1/1 train_loss:3.5 train_time:9ms step_avg:9.0ms\n")
    assert (found["backend"], found["world_size"], value(found, "last_train_loss")) == (None, None, 3.5)


PARTS = (
    "epoch=|Epoch |step:|loss|train_loss:|Accuracy: |[rank1]:|3/20|0.5|1e999|nan|1,234|97.1%|0:03:59|%s|\0|\x1b[2J|\n"
)
PIECES = st.sampled_from([*PARTS.encode().split(b"|"), b"\xff\xfe", b":::MLLOG ", b"9" * 400]) | st.binary(max_size=20)


@pytest.mark.slow
@given(st.lists(PIECES, max_size=40).map(b"".join))
@settings(max_examples=300, deadline=None)
def test_any_bytes_become_an_object(data: bytes) -> None:
    read(data)
