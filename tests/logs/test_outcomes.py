"""The status of a log: `completed` and `failed` only if the log shows it."""

import pytest

from runner.logs.dialect import built_in
from tests.support.logs import read_text as read

TRAINED = "epoch: 1, loss: 0.52\nepoch: 2, loss: 0.41\n"
TRACE = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    main()\n'
BAR = " 67%|######6   | 336/504 [01:02<00:31,  5.38it/s]"
CHILD = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
LINES = [pattern.line for dialect in built_in() for pattern in dialect.patterns]


@pytest.mark.parametrize(
    "end",
    [
        *(line.example for line in LINES if line.says == "failed"),
        TRACE + "KeyError: 'loss'\n",
        BAR + TRACE + "ValueError: bad batch\n" + BAR,
        BAR + "slurmstepd: error: *** JOB 4711 ON node17 CANCELLED AT 2024-05-01T10:00:00 ***\n",
        "slurmstepd-node17: error: *** STEP 1.0 ON n1 CANCELLED AT 2024-05-01T10:00:00 DUE TO TIME LIMIT ***\n"
        + "Killing subprocess 4711\nMain process received SIGTERM, exiting\n" * 60,
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=4711.batch.\n",
        BAR + "Killed\n",
        CHILD + "=====\ntrain.py FAILED\n-----\nRoot Cause (first observed failure):\n[0]:\n  rank : 1\n=====\n",
    ],
    ids=lambda end: end[:40],
)
def test_a_failure_at_the_end_is_one(end: str) -> None:
    assert read(TRAINED + end)["status"] == "failed"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "epoch: 3, loss: 0.4\n"),
        ("", "Total training time: 123.45 seconds\n"),
        ("", "\nreal\t1m2.345s\nuser\t1m0.1s\n"),
        ("", "".join(f"batch {number} of the summaries written\n" for number in range(40))),
        ("Finished Training\n", ""),
    ],
)
def test_a_failure_before_or_after_the_end_of_the_run_is_a_note(before: str, after: str) -> None:
    found = read(f"{TRAINED}{before}{TRACE}TypeError: a logger\n{after}")
    assert found["status"] != "failed"
    assert before == "" or found["status"] is None
    assert "TypeError: a logger" in found["notes"][0]


# A status, and lines separated by |.
ENDS = f"""
completed;Epoch [1/2], Loss: 0.5|Epoch [2/2], Loss: 0.4
None;Epoch [1/2], Loss: 0.5|Epoch [2/2], Loss: 0.4|Epoch [2/2], Loss: 0.3
None;Epoch [0/2], Loss: 0.5|Epoch [1/2], Loss: 0.4
None;Epoch [1/2], Step [9/10], Loss: 0.5|Epoch [2/2], Step [4/10], Loss: 0.4|Test Accuracy: 98%
None;step:9/10 train_loss:3.3 train_time:3ms step_avg:1ms
completed;step:10/10 train_loss:3.3 train_time:3ms step_avg:1ms
None;{TRAINED}Finished Training|srun: error: n1: task 3: Exited with exit code 1
None;{TRAINED}Test Accuracy: 98.53%
None;{TRAINED}Optimization Finished!
completed;{TRAINED}Training of experiment is done and the best AP is 90.00
completed;{TRAINED}INFO Trainer - Training is Done
None;{TRAINED}Process finished with exit code 0
None;epoch: 1, loss: 0.6|Epoch 1 training completed.
""".replace(TRAINED, TRAINED.replace("\n", "|"))


@pytest.mark.parametrize("row", ENDS.split("\n")[1:-1])
def test_only_words_or_a_declared_number_complete_a_run(row: str) -> None:
    status, lines = row.split(";")
    assert str(read(lines.replace("|", "\n") + "\n")["status"]) == status


@pytest.mark.slow
def test_no_cut_of_a_log_whose_end_has_no_words_is_called_completed() -> None:
    epochs = "".join(f"epoch: {e}, loss: 0.{9 - e}\nTest Accuracy: 9{e}.5%\n" for e in range(1, 6))
    text = "Namespace(epochs=5)\n" + epochs
    assert {read(text[:at])["status"] for at in range(len(text) - 40)} == {None}
    assert read(text)["status"] == "completed"


@pytest.mark.parametrize(
    "line", ["Epoch:  {e:2}, Loss:   0.5", "Epoch [{e:>3}/ 20], Loss:  0.5", "Train Epoch: {e:4}  Loss:     0.5"]
)
def test_blanks_that_fill_a_column_hide_no_number(line: str) -> None:
    found = read("".join(line.format(e=e) + "\n" for e in range(1, 12)))
    assert (found["epochs_seen"], found["last_train_loss"]["value"]) == (list(range(1, 12)), 0.5)


def test_a_log_that_lacks_its_beginning_or_a_training_has_a_note() -> None:
    assert any("epochs begin with 7" in note for note in read("epoch: 7, loss: 0.5\n")["notes"])
    assert any("no line of a training" in note for note in read("world size: 4\nround 1 cost 3\n")["notes"])


KERAS = "".join(f"Epoch {n}/3\n363/363 [=====] - 0s 1ms/step - loss: 0.{5 - n} - val_loss: 0.4\n" for n in (1, 2, 3))
EVALUATED = "162/162 [=====] - 0s 1ms/step - loss: 0.9\n"
BATCHES = "".join(f"Epoch: 00{n}/003 | Batch {b:03}/007 | Loss: 0.{n}\n" for n in (1, 2, 3) for b in (0, 5))


def test_a_bar_over_other_data_after_the_last_epoch_is_no_loss_of_the_training() -> None:
    shown = read(KERAS + EVALUATED)
    assert (shown["status"], shown["last_train_loss"]["value"]) == ("completed", 0.2)


@pytest.mark.parametrize(
    "log",
    [
        KERAS.replace("/3\n", "/9\n") + EVALUATED,
        BATCHES,
        BATCHES.replace("Batch 005", "Batch 000"),
        "".join(f"Epoch {n}/3 loss: 0.{n}\nval_loss: 0.5\n" for n in (1, 2, 3)) + "Epoch 3/3 loss: 0.1\n",
        "".join(f"loss: 0.{5 - n}\nEpoch {n}: accuracy 0.{n}\n" for n in (1, 2, 3)),
        "".join(f"Train Epoch: {n} / 1000\nloss: 0.4\n" for n in range(0, 1000, 200)),
    ],
    ids=["early stopping", "no last batch", "one batch per epoch", "no last evaluation", "epochs behind", "a stride"],
)
def test_a_run_whose_last_epoch_may_not_have_ended_has_no_status(log: str) -> None:
    assert read(log)["status"] is None
