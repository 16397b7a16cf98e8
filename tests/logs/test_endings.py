"""How a log's run ended: what is of one epoch, one container or an ignored exception says nothing of the whole run."""

import pytest

from tests.support.logs import read_text as read

DICT = "{{'eval_loss': 1.05, 'eval_accuracy': 0.57, 'epoch': {epoch}}}\n"
KERAS = "10/10 - 4s - loss: 0.2 - accuracy: 0.93 - val_loss: 0.1 - val_accuracy: 0.96 - 4s/epoch\n"
MNIST = "Train Epoch: 1 [59520/60000 (99%)]\tLoss: 0.2\n\nTest set: Average loss: 0.04, Accuracy: 9848/10000 (98%)\n"
TIMM_EPOCH = "Train: {} [1250/1251 (100%)]  Loss: 6.55 (6.75)\nTest:  Acc@1 5.2 Acc@5 9\n"
TIMM = "Scheduled epochs: 2. LR stepped per epoch.\n" + TIMM_EPOCH.format(0)
IGNORED = "Exception ignored in: <function _Iter.__del__ at 0x7f>\nTraceback (most recent call last):\n"
IGNORED += '  File "dataloader.py", line 1477, in __del__\nAssertionError: can only test a child process\n'


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        ("  Num Epochs = 3\n" + DICT.format(epoch="1.0"), 3),
        ("  Num Epochs = 3\n{'loss': 2.3, 'epoch': 0.0}\n" + DICT.format(epoch="1.0") + DICT.format(epoch="2.0"), 3),
        ("Epoch 1/2\n" + KERAS + "Epoch 2/2\n", 2),
        ("Epoch 1\nloss: 0.5  [6400/6400]\n Accuracy: 64.1%, Avg loss: 1.09 \nEpoch 2\n", None),
        (TIMM, 2),
        ("Namespace(batch_size=64, warmup_epochs=1, epochs=14, lr=1.0)\n" + MNIST, 14),
        ("Arguments: Namespace(num_epochs=2)\n" + MNIST, 2),
        # Words of an epoch, said for the first time.
        ("Epoch 1/10, Loss: 0.6\nSaved model to ckpt_1.pt\n", 10),
        ("Epoch 1/10, Loss: 0.6\nEpoch 1 training completed.\n", 10),
        ("Epoch 1/10, Loss: 0.6\nDone!\n", 10),
    ],
)
def test_a_log_that_ends_before_its_last_epoch_is_truncated(text: str, declared: int | None) -> None:
    found = read(text)
    assert (found["status"], found["epochs_declared"]) == ("truncated", declared)


def test_an_argument_that_another_line_corrects_does_not_count() -> None:
    found = read("Namespace(epochs=1)\n" + TIMM + TIMM_EPOCH.format(1))
    assert (found["status"], found["epochs_declared"]) == ("completed", 2)


@pytest.mark.parametrize(
    "words",
    [
        "Saved model to ckpt_{epoch}.pt",
        "Epoch {epoch} training completed.",
        "Done!",
        "Training time: 12.{epoch} s",
        "Finished training.",
    ],
)
def test_words_that_are_said_after_each_epoch_do_not_end_a_run_before_its_last_one(words: str) -> None:
    epochs = [f"Epoch [{e}/10], Step [9/9], Loss: 0.{e}\n" + words.format(epoch=e) + "\n" for e in range(1, 11)]
    assert read("".join(epochs[:2]))["status"] == "truncated"
    assert read("".join(epochs))["status"] == "completed"


def test_a_run_that_stops_early_and_says_so_once_is_completed() -> None:
    text = (
        "Epoch 1/10, Loss: 0.6\nSaved model to a.pt\nEpoch 2/10, Loss: 0.7\nSaved model to a.pt\nTraining finished.\n"
    )
    assert read(text)["status"] == "completed"
    assert read(text + "Saved model to final.pt\n")["status"] == "completed"


def test_the_end_of_one_rank_is_no_end_of_an_epoch() -> None:
    text = "[rank0]: Epoch [1/2], Step [9/9], Loss: 0.2\n[rank1]: Training complete in: 0:01:00\n"
    text += "[rank0]: Epoch [2/2], Step [9/9], Loss: 0.1\n[rank0]: Training complete in: 0:02:00\n"
    found = read(text)
    assert (found["status"], found["wall_time_s"]["value"]) == ("completed", 120)


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        ("node1-1 exited with code 137\nnode0-1 exited with code 0\n", "failed"),
        ("node0-1 exited with code 0\nnode1-1 exited with code 137\n", "failed"),
        ("node1-1 exited with code 1\nnode0-1 exited with code 0\nnode1-1 exited with code 0\n", "completed"),
        ("node1-1 exited with code 1\nnode2-1 exited with code 1\nnode2-1 exited with code 0\n", "failed"),
        ("\tExit status: 0\n", "completed"),
        ("      Exit Code:    0\n", None),
        ("Process completed with exit code 0.\n", "completed"),
    ],
)
def test_what_ends_well_is_no_failure_and_undoes_none_of_another_container(ends: str, status: str | None) -> None:
    assert read(MNIST + ends)["status"] == status


@pytest.mark.parametrize("line", ["Error: 1.47%", "MeanSquaredError: 0.0213", "Error: -0.5", "Error: .5"])
def test_an_error_with_a_number_is_a_result_and_no_failure(line: str) -> None:
    assert read(MNIST + line + "\n")["status"] is None
    assert read(MNIST + "KeyError: 'x'\n")["status"] == "failed"


def test_an_exception_that_python_ignores_is_a_note() -> None:
    found = read(MNIST + IGNORED)
    assert (found["status"], found["notes"]) == (None, ["line 5: an exception that Python ignored"])
    real = "Traceback (most recent call last):\nRuntimeError: x\n"
    assert read(MNIST + IGNORED + real)["status"] == "failed"
    assert read(MNIST + IGNORED + "RuntimeError: x\n")["status"] == "failed"
    assert read(MNIST + real + IGNORED)["status"] == "failed"
    assert read(MNIST + IGNORED * 3)["status"] is None


def test_workers_that_a_launcher_starts_again_are_no_failed_run() -> None:
    failed = "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 71)\n"
    failed += "Worker group FAILED. 3/3 attempts left; will restart worker group\n"
    ended = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    text = "Epoch 1/3, Loss: 0.5\n" + failed + "Epoch 2/3, Loss: 0.4\nEpoch 3/3, Loss: 0.3\n"
    assert read(text)["status"] == "completed"
    assert read(text + failed)["status"] == "failed"
    assert read(text + ended)["status"] == "failed"


def of_pod(name: str, text: str) -> str:
    return "".join(f"[pod/train-{name}-0/pytorch] {line}\n" for line in text.splitlines())


STEPS = "".join(f"Train Epoch: {epoch} [0/60000 (0%)]\tLoss: 0.{9 - epoch}\n" for epoch in range(1, 4))
OUT_OF_MEMORY = "Traceback (most recent call last):\n  File 'a.py', line 3\nRuntimeError: CUDA out of memory\n"


@pytest.mark.parametrize("order", [1, -1])
def test_a_pod_whose_lines_stand_before_those_of_others_is_judged_by_its_own(order: int) -> None:
    pods = [of_pod("master", STEPS + OUT_OF_MEMORY), of_pod("worker", STEPS * 9)]
    log = read("".join(pods[::order]))
    assert log["status"] == "failed"
    assert not any("went on" in note for note in log["notes"])


def test_of_pods_one_after_the_other_of_which_one_failed_and_one_completed_nothing_is_said() -> None:
    log = read(of_pod("master", STEPS + OUT_OF_MEMORY) + of_pod("worker", STEPS + "Training completed.\n"))
    assert log["status"] is None
    assert any("CUDA out of memory" in note for note in log["notes"])


def test_a_pod_that_trains_on_after_its_failure_went_on() -> None:
    log = read(of_pod("master", STEPS + OUT_OF_MEMORY + STEPS) + of_pod("worker", STEPS))
    assert log["status"] != "failed"
    assert any("the run went on" in note for note in log["notes"])


def test_pods_whose_lines_are_mixed_are_judged_together() -> None:
    master, worker = (of_pod(name, STEPS).splitlines(keepends=True) for name in ("master", "worker"))
    mixed = "".join(line for pair in zip(master, worker, strict=True) for line in pair)
    log = read(mixed + of_pod("master", OUT_OF_MEMORY) + of_pod("worker", STEPS * 9))
    assert any("the run went on" in note for note in log["notes"])
