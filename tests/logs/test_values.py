"""Numbers of logs: a value that is not sure is left out with a note, and values are compared in one unit."""

import pytest

from runner.logs.reading import read_stream
from tests.support.logs import read_text as read


@pytest.mark.parametrize("number", ["0,4193", "1,034.5", "1 234.5", "1'234.5"])
@pytest.mark.parametrize("line", ["Epoch 2/2, Loss: {}", "Train Epoch: 1 [9/9 (9%)]\tLoss: {}"])
def test_a_number_of_which_only_the_beginning_is_read_is_left_out_with_a_note(line: str, number: str) -> None:
    found = read(line.format(number) + "\n")
    assert found["last_train_loss"] is None
    assert "line 1: left out" in found["notes"][0]


def test_a_comma_or_a_point_after_a_whole_number_hides_nothing() -> None:
    found = read("Epoch 1/1, Loss: 0.5, accuracy 3\n{'loss': 0.25,'epoch': 1.0}\nepoch: 2, loss: 0.125\n")
    assert (found["last_train_loss"]["value"], found["epochs_seen"]) == (0.125, [1, 2])


@pytest.mark.parametrize(
    ("line", "value", "unit"),
    [
        ("Test accuracy: 98.54", 98.54, "percent"),
        ("{'eval_accuracy': 85.31}", 85.31, "percent"),
        ("accuracy=96.64", 96.64, "percent"),
        ("val Loss: 0.29 Acc: 95.42", 95.42, "percent"),
        ("accuracy=0.9664", 0.9664, "fraction"),
        ("accuracy=1.0", 1.0, "fraction"),
    ],
)
def test_an_accuracy_above_one_is_a_percentage(line: str, value: float, unit: str) -> None:
    found = read(line + "\n")["final_eval"]
    assert (found["metric"], found["value"], found["unit"]) == ("accuracy", value, unit)


@pytest.mark.parametrize("line", ["Test set: Average loss: 0.05, Accuracy: 60000/10000 (600%)", "Test accuracy: 9854"])
def test_an_accuracy_above_all_is_left_out_with_a_note(line: str) -> None:
    found = read(line + "\n")
    assert found["final_eval"] is None or found["final_eval"]["metric"] == "val_loss"
    assert f"line 1: left out: an accuracy above 100%: {line}" in found["notes"]


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("Test accuracy: -3%", "final_eval"),
        ("Training time: -12 seconds", "wall_time_s"),
        ("{'train_runtime': 10.0, 'train_samples_per_second': -3, 'train_loss': 0.5, 'epoch': 1.0}", "throughput"),
        (':::MLLOG {"key": "eval_accuracy", "value": -0.5, "metadata": {}}', "final_eval"),
    ],
)
def test_what_cannot_be_below_0_is_left_out_with_a_note(line: str, field: str) -> None:
    found = read(f"Epoch 1/3, Loss: -0.5\n{line}\n")
    assert (found[field], found["notes"][0]) == (None, f"line 2: left out: a value below 0: {line}")


@pytest.mark.parametrize("end", ["0.", "0.\n", "0.4"])
def test_a_number_that_may_be_torn_is_left_out_with_a_note(end: str) -> None:
    found = read(f"Epoch 1/2, Loss: 0.9\nEpoch 2/2, Loss: {end}")
    assert (found["status"], found["last_train_loss"]["line"]) == (None, 1)
    assert any(note.startswith("line 2: left out") for note in found["notes"])
    bar = "".join(f"{n}/9 [==] - loss: 0.{n}\r" for n in (1, 2, 3))
    assert read(f"Epoch 1/1\n{bar}4/9 [==] - loss: {end}")["last_train_loss"]["value"] == 0.3


def test_the_best_evaluation_is_found_in_one_unit() -> None:
    found = read("val Loss: 0.1 Acc: 0.9912\nTest Accuracy: 98.5%\n")
    assert (found["best_eval"]["value"], found["best_eval"]["unit"]) == (0.9912, "fraction")
    assert (found["final_eval"]["value"], found["final_eval"]["unit"]) == (98.5, "percent")


def test_there_is_no_best_of_numbers_that_may_be_of_two_units() -> None:
    found = read("val Loss: 4.6 Acc: 0.98\nval Loss: 4.1 Acc: 5.4\n")
    assert (found["best_eval"], found["final_eval"]["value"]) == (None, 5.4)


def test_a_duration_of_each_epoch_is_not_that_of_the_run() -> None:
    epochs = [f"Epoch {e}/3, Loss: 0.{e}\nTraining time: 12.{e} s\n" for e in (1, 2, 3)]
    found = read("".join(epochs))
    assert found["wall_time_s"] is None
    cut = read(epochs[0] + "Epoch 2/3, Loss: 0.2\n")
    assert cut["wall_time_s"] is None
    assert read("".join(epochs) + "Total training time: 36.6 s\n")["wall_time_s"]["value"] == 36.6


@pytest.mark.parametrize(
    ("text", "processes"),
    [
        ("torchrun --nproc_per_node=4 \\\n    --nnodes=2 train.py\n", None),
        ("torchrun --standalone --nproc_per_node=4 \\\n    train.py\n", 4),
        ("torchrun --nnodes=1:4 --nproc-per-node=4 train.py --epochs 3\n", None),
        ("torchrun --nproc-per-node=gpu train.py\n", None),
        ("torchrun --nproc-per-node 4 train.py\n", 4),
        ("torchrun --nnodes=2 --nproc-per-node=4 train.py\n", 8),
        ("LOCAL_WORLD_SIZE=4\n", None),
        ("GROUP_WORLD_SIZE=2\nLOCAL_WORLD_SIZE=4\nROLE_WORLD_SIZE=8\nWORLD_SIZE=8\n", 8),
        ("OMPI_COMM_WORLD_SIZE=8\n", 8),
        ("export WORLD_SIZE=8\n", 8),
        ("model parallel world size: 2\nworld size: 8\n", 8),
        ("local world size: 4\n", None),
        ("rank: 3, world size: 8\n", 8),
    ],
)
def test_the_number_of_processes_is_that_of_the_whole_run(text: str, processes: int | None) -> None:
    found = read(text)
    assert found["world_size"] == processes
    assert not any("contradictory" in note for note in found["notes"])


def test_a_byte_order_mark_that_is_all_of_the_first_bytes_hides_no_line() -> None:
    parts = [b"\xef\xbb\xbf", b"Epoch 1/2, Loss: 0.6\n"]
    assert read_stream(lambda _: parts.pop(0) if parts else b"").facts.lowest("train_loss")


def test_a_time_that_stands_before_the_first_epoch_is_of_another_program() -> None:
    lines = ["Training time 21:59:39", "Epoch: [0] [7/8] loss: 2.5 (2.6)", "Epoch 1, Loss: 0.5", "Epoch 2, Loss: 0.4"]
    assert read("\n".join(lines) + "\n")["wall_time_s"] is None


SUMMARY = "{{'train_runtime': {0}, 'train_samples_per_second': {1}, 'train_loss': {2}, 'epoch': 3.0}}\n"


def test_of_two_summaries_of_the_trainer_no_figure_is_taken() -> None:
    one, other = SUMMARY.format(73.331, 49.092, 1.0898), SUMMARY.format(70.1, 51.3, 0.9211)
    assert read(one + one.replace("1.0898", "1.09"))["throughput"]["value"] == 49.092
    found = read(one + other)
    assert (found["throughput"], found["last_train_loss"], found["wall_time_s"]) == (None, None, None)
    assert any("training" in note for note in found["notes"])


def test_of_lines_that_take_turns_the_last_of_each_kind_counts() -> None:
    lines = "steps: {0} loss: 0.{0} iter time (s): 0.5\nRunningAvgSamplesPerSec=6{0}.5, CurrSamplesPerSec=6\n"
    for end in ("", lines.split("\n", maxsplit=1)[0].format(10) + "\n"):
        found = read("".join(lines.format(n) for n in range(1, 10)) + end)
        assert (found["last_train_loss"]["value"], found["throughput"]["value"]) == (0.1 if end else 0.9, 69.5)
        assert found["dialects"] == {"deepspeed": 18 + bool(end)}
