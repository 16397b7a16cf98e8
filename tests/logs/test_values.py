"""Values of logs: a doubtful number is left out with a note, and values are compared in one unit."""

import pytest

from tests.support.logs import read_text as read


@pytest.mark.parametrize("number", ["0,4193", "1,034.5", "1 234.5", "1'234.5"])
@pytest.mark.parametrize("line", ["Epoch 2/2, Loss: {}", "Train Epoch: 1 [9/9 (9%)]\tLoss: {}"])
def test_a_number_of_which_only_the_beginning_is_read_is_left_out(line: str, number: str) -> None:
    found = read(line.format(number) + "\n")
    assert found["last_train_loss"] is None
    assert "line 1: left out" in found["notes"][0]


@pytest.mark.parametrize("end", ["0.", "0.\n", "0.4"])
def test_a_number_that_may_be_torn_is_left_out(end: str) -> None:
    found = read(f"Epoch 1/2, Loss: 0.9\nEpoch 2/2, Loss: {end}")
    assert (found["status"], found["last_train_loss"]["line"]) == (None, 1)
    assert any(note.startswith("line 2: left out") for note in found["notes"])
    bar = "".join(f"{n}/9 [==] - loss: 0.{n}\r" for n in (1, 2, 3))
    assert read(f"Epoch 1/1\n{bar}4/9 [==] - loss: {end}")["last_train_loss"]["value"] == 0.3


@pytest.mark.parametrize(
    ("line", "field", "why"),
    [
        ("Test accuracy: -3%", "final_eval", "below 0"),
        ("Training time: -12 seconds", "wall_time_s", "below 0"),
        ("{'train_runtime': 10.0, 'train_samples_per_second': -3, 'train_loss': 0.5}", "throughput", "below 0"),
        (':::MLLOG {"key": "eval_accuracy", "value": -0.5, "metadata": {}}', "final_eval", "below 0"),
        ("Test set: Average loss: 0.05, Accuracy: 60000/10000 (600%)", "final_eval", "above 100%"),
        ("Test accuracy: 9854", "final_eval", "above 100%"),
    ],
)
def test_an_impossible_value_is_left_out(line: str, field: str, why: str) -> None:
    found = read(f"Epoch 1/3, Loss: -0.5\n{line}\n")
    assert found[field] is None or found[field]["metric"] == "val_loss"
    assert found["notes"][0].startswith("line 2: left out: ")
    assert f"{why}: {line}" in found["notes"][0]


@pytest.mark.parametrize(
    "line", ["Test accuracy: {}", "{{'eval_accuracy': {}}}", "val Loss: 0.29 Acc: {}", "accuracy={}"]
)
@pytest.mark.parametrize(("value", "unit"), [(98.54, "percent"), (0.9664, "fraction"), (1.0, "fraction")])
def test_an_accuracy_above_one_is_a_percentage(line: str, value: float, unit: str) -> None:
    found = read(line.format(value) + "\n")["final_eval"]
    assert (found["metric"], found["value"], found["unit"]) == ("accuracy", value, unit)


def test_the_best_evaluation_is_found_in_one_unit() -> None:
    found = read("val Loss: 0.1 Acc: 0.9912\nTest Accuracy: 98.5%\n")
    assert (found["best_eval"]["value"], found["final_eval"]["value"]) == (0.9912, 98.5)
    found = read("val Loss: 4.6 Acc: 0.98\nval Loss: 4.1 Acc: 5.4\n")  # perhaps 0.98% at first
    assert (found["best_eval"], found["final_eval"]["value"]) == (None, 5.4)


def test_a_duration_of_each_epoch_is_not_that_of_the_run() -> None:
    epochs = [f"Epoch {e}/3, Loss: 0.{e}\nTraining time: 12.{e} s\n" for e in (1, 2, 3)]
    assert read("".join(epochs))["wall_time_s"] is None
    assert read(f"{epochs[0]}Epoch 2/3, Loss: 0.2\n")["wall_time_s"] is None
    assert read("".join(epochs) + "Total training time: 36.6 s\n")["wall_time_s"]["value"] == 36.6
    before = "Training time 21:59:39\nEpoch: [0] [7/8] loss: 2.5 (2.6)\n"  # of another program
    assert read(f"{before}Epoch 1, Loss: 0.5\nEpoch 2, Loss: 0.4\n")["wall_time_s"] is None


# A number of processes, and lines separated by |.
PROCESSES = r"""
None;torchrun --nproc_per_node=4 \|    --nnodes=2 train.py
4;torchrun --standalone --nproc_per_node=4 \|    train.py
None;torchrun --nnodes=1:4 --nproc-per-node=4 train.py --epochs 3
None;torchrun --nproc-per-node=gpu train.py
4;torchrun --nproc-per-node 4 train.py
8;torchrun --nnodes=2 --nproc-per-node=4 train.py
None;LOCAL_WORLD_SIZE=4
8;GROUP_WORLD_SIZE=2|LOCAL_WORLD_SIZE=4|ROLE_WORLD_SIZE=8|WORLD_SIZE=8
8;OMPI_COMM_WORLD_SIZE=8
8;export WORLD_SIZE=8
8;model parallel world size: 2|world size: 8
None;local world size: 4
8;rank: 3, world size: 8
"""


@pytest.mark.parametrize("row", PROCESSES.split("\n")[1:-1])
def test_the_number_of_processes_is_that_of_the_whole_run(row: str) -> None:
    processes, lines = row.split(";")
    found = read(lines.replace("|", "\n") + "\n")
    assert str(found["world_size"]) == processes
    assert not any("contradictory" in note for note in found["notes"])


SUMMARY = "{{'train_runtime': {0}, 'train_samples_per_second': {1}, 'train_loss': {2}, 'epoch': 3.0}}\n"


def test_two_summaries_of_the_trainer_are_two_trainings_unless_they_agree() -> None:
    one = SUMMARY.format(73.331, 49.092, 1.0898)
    assert read(one + one.replace("1.0898", "1.09"))["throughput"]["value"] == 49.092
    found = read(one + SUMMARY.format(70.1, 51.3, 0.9211))
    assert (found["throughput"], found["last_train_loss"], found["wall_time_s"]) == (None, None, None)
    assert any("training" in note for note in found["notes"])


def test_the_last_of_each_kind_of_alternating_lines_counts() -> None:
    lines = "steps: {0} loss: 0.{0} iter time (s): 0.5\nRunningAvgSamplesPerSec=6{0}.5, CurrSamplesPerSec=6\n"
    found = read("".join(lines.format(n) for n in range(1, 10)))
    assert (found["last_train_loss"]["value"], found["throughput"]["value"]) == (0.9, 69.5)
    assert found["dialects"] == {"deepspeed": 18}
