"""Lines in no known dialect: what is said again and again is read, and rather no figure than a wrong one."""

from typing import Any

import pytest

from tests.support.logs import read_text

LOSS = "epoch {e} loss {l}"


def read(*lines: str) -> dict[str, Any]:
    return read_text("".join(f"{line}\n" for line in lines))


def figures(*lines: str) -> tuple[Any, ...]:
    """The epochs, the last loss, and the last evaluation."""
    log = read(*lines)
    values = [log[name] and log[name]["value"] for name in ("last_train_loss", "final_eval")]
    return (log["epochs_seen"], *values)


def epochs(line: str, count: int = 3) -> list[str]:
    return [line.format(e=number, l=f"0.{9 - number}1", v=f"0.{number}5") for number in range(1, count + 1)]


@pytest.mark.parametrize(
    "line",
    [
        "[Epoch {e}/3] lr 0.1 | train_loss {l} | val_acc={v}",
        "epoch={e}, step=100, train_loss={l}, val_accuracy={v}",
        "acc/val: {v}; loss/train: {l}; epoch: {e}",
        "{{'epoch': {e}, 'training_loss': {l}, 'val_accuracy': {v}}}",
        '{{"epoch": {e}, "train": {{"loss": {l}}}, "val": {{"loss": 0.3, "acc": {v}}}}}',
        "Train Loss: {l}, Train Acc: 0.99 - Test Loss: 0.3, Test Acc: {v} - epoch {e}",
        "INFO:root:[Epoch 00{e}] training: loss={l} accuracy=0.99 validation: acc-top1={v} acc-top5=0.99 loss=0.4",
        "| epoch {e} | iou_loss 7.1 | cls_loss 3.2 | total_loss {l} | val acc {v} |",
        "{e}epoch: [train] loss={l}, acc=0.99, [valid] loss=0.5, acc={v}",
    ],
)
def test_names_beside_numbers_are_read_in_any_order_and_form(line: str) -> None:
    assert figures(*epochs(line)) == ([1, 2, 3], 0.61, 0.35)


@pytest.mark.parametrize(
    ("lines", "loss", "evaluation"),
    [
        (["[1] train_loss: 0.9 val_loss: 0.8", "[2] train_loss: 0.7 val_loss: 0.6"], 0.7, 0.6),
        (["[0] train_loss: 0.9", "[1] train_loss: 0.7"], None, None),
        (["epoch 1 loss 0.9", "Validating", "epoch 1 loss 0.8", "epoch 2 loss 0.7", "Validating", "epoch 2 loss 0.6"],
         0.7, None),
        (["epoch 1 loss 0.9", "Validate epoch 1 loss 0.8", "epoch 2 loss 0.7", "Validate epoch 2 loss 0.6"], 0.7, 0.6),
        (["Eval begin...", "step 10/30 - loss: 0.9", "step 20/30 - loss: 0.7", "step 30/30 - loss: 0.6"], None, None),
        (["step 10 loss 0.9", "step 20 loss 0.8", "Evaluate", "step 30 loss 0.7", "step 40 loss 0.6"], 0.6, None),
        (["epoch 1 train_loss 0.9 val_loss 0.8", "epoch 2 train_loss -nan val_loss NAN"], None, None),
        # What the best was is no figure of the last epoch.
        ([*epochs("epoch {e} train_loss {l} val_acc {v}"), "Best epoch: 2, train_loss: 0.1, val_acc: 0.9"], 0.61, 0.35),
        ([*epochs("epoch {e} train_loss {l} val_loss {v}"), "=> best model | epoch 1 | val_loss 0.1"], 0.61, 0.35),
        ([*epochs(LOSS), "Best model at step 2:", "  train loss: 0.1", "  test loss: 0.2"], 0.61, None),
        (["Loss step 90:  0.0116", "Loss step 100:  0.0115", "Train loss epoch 3: 0.41"], None, None),
        ([*epochs(LOSS), "Loss: 0.887, MeanIU:  0.6256"], 0.61, None),
        (epochs("Epoch {e} loss {l} - Dev BLEU: BLEU-1 65.43, BLEU-4 33.87"), 0.61, None),
        (["epoch 1 loss 0.9", "this epoch:", "loss= 0.8", "epoch 2 loss 0.7", "this epoch:", "loss= 0.6"], 0.6, None),
        (["TRAIN Batch 1/9 loss 0.8", "TRAIN Batch 2/9 loss 0.7", "CV Batch 3/9 loss 0.2", "CV Batch 4/9 loss 0.1"],
         0.7, None),
        (["x.trainer:train_epoch:359 - Train epoch: [30/200], loss: 12.5"], 12.5, None),
        (epochs("Epoch {e}, batch 4, loss[loss=0.{e}5], tot_loss[loss=0.{e}5]"), None, None),
        (["Mean value loss: 19.6", "Mean entropy loss: 1.3"] * 3, None, None),
        # A count of the right ones is of an evaluation.
        ([*epochs(LOSS), "Labeled set: Average loss: 0.1659, Accuracy: 1095/1134"], 0.61, None),
        (["train in epoch 1 loss 0.9", "test in epoch 1 acc 0.2", *epochs("train in epoch 2 loss {l}", 1),
          "test in epoch 2 acc 0.3"], 0.81, 0.3),
        ([*epochs(LOSS), "epoch 3 was evaluated", "EPOCH 4 EVALUATION", "EPOCH 5 EVALUATION"], 0.61, None),
        # A loss below a heading is what the heading says.
        ([*epochs(LOSS), "Evaluation results:", "  Loss: 0.25", "  Accuracy: 91.5%"], 0.61, 91.5),
        ([*epochs(LOSS), "Validating", "please wait", "  Loss: 0.25"], 0.61, None),
        # An accuracy in a line of the training is no evaluation, and of a part of a validation nothing is taken.
        (epochs("epoch {e} loss {l} acc {v}"), 0.61, None),
        ([*epochs(LOSS), "| epoch 3 | valid | 10 / 90 | loss=0.4", "epoch 3 [10/90] val_loss 0.4"], 0.61, None),
    ],
)  # fmt: skip
def test_figures_of_evaluations_and_places_are_told_from_those_of_the_training(
    lines: list[str], loss: float | None, evaluation: float | None
) -> None:
    assert figures(*lines)[1:] == (loss, evaluation)


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("Total training time: 1h 2m 3s", 3723),
        ("Total time exceeded 1 minute, ending training", None),
        ("Total training time remaining: 3h 12m", None),
        ("FOLD 2 | Total time 22923.95s for 25310 iterations.", None),
        ("kit.inference INFO: Total run time: 0:00:01 (0.13 s / img per device, on 1 devices)", None),
        ("Estimated total training time: 12 hours", None),
        ("Total training time: 5 min 30 sec", 330),
        ("Training time: 12.5 s (0.2 min)", 12.5),
        ("Training time: 12.5 s/epoch", None),
        ("Total time taken for evaluation: 12.5 s", None),
        ("Epoch: [1] Total time: 0:03:12", None),
        ("Total training time is 56h 8m", 202_080),
        ("Total time elapsed: 1509.3095s", 1509.3095),
        ("Total training time: 0:01:21", 81),
        ("Total time: 2.5 minutes", 150),
    ],
)
def test_a_duration_is_that_of_the_whole_training_or_none(line: str, seconds: float | None) -> None:
    found = read(*epochs("epoch {e} train_loss {l}"), line)["wall_time_s"]
    assert (found and found["value"]) == seconds


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["Epoch 3: early stopping"], "completed"),
        (["Tokenizer training complete.", "RuntimeError: no"], "failed"),
        (["Checkpoints are kept until training is complete."], "truncated"),
        (["MeanAbsoluteError: tensor(0.1)", "Training complete."], "completed"),
        (["[1]+  Exit 1    nvidia-smi dmon", "Training complete."], "completed"),
    ],
)
def test_words_of_an_end_are_those_of_this_training(lines: list[str], status: str) -> None:
    assert read(*epochs("Epoch {e}/9 train_loss {l}"), *lines)["status"] == status


def test_of_two_trainings_in_one_log_the_second_counts() -> None:
    log = read(*epochs("Epoch {e}/3, Loss: {l}"), "Training complete.", "Epoch 1/3, Loss: 0.9")
    assert (log["status"], log["epochs_seen"]) == ("truncated", [1])
    assert "a training begins again here" in log["notes"][0]


@pytest.mark.parametrize(
    ("head", "row"),
    [
        ("epoch\ttrain_loss\tvalid_loss\taccuracy", "{e}\t{l}\t0.5\t{v}"),
        ("epoch,train_loss,val_loss,val_acc", "{e},{l},0.5,{v}"),
        ("epoch     train_loss  valid_loss  accuracy  time", "{e}         {l}        0.5         {v}      00:12"),
        ("| Epoch | Train Loss | Val Acc |", "| {e} | {l} | {v} |"),
    ],
)
def test_a_table_is_read_by_its_heads(head: str, row: str) -> None:
    assert figures(head, "|---|---|---|", *epochs(row)) == ([1, 2, 3], 0.61, 0.35)


@pytest.mark.parametrize(
    "lines",
    [
        ["epochs: 90", "lr: 0.1", "epoch: 100", "loss_weight: 0.5", "loss: 1.0", "val_split: 0.1"],
        ["Args(epoch=3, loss=0.5, val_acc=0.9)", "Args(epoch=4, loss=0.4, val_acc=0.8)"],
        ["    loss = loss + 0.5 * aux(epoch=3)", 'print(f"epoch {epoch} loss: {loss:.4f}")'],
        ["checkpoint_epoch_3_loss_0.5.pth", "model-epoch=3-val_acc=0.91.ckpt", "https://a.b/epoch=3?loss=0.5"],
        epochs("iter {e}: iou_loss {l}, cls_loss {l}, target val acc 0.9"),
        epochs("epoch {e}: loss 0,{e}5"),
        epochs("epoch {e}: loss 0.{e}5, loss 0.{e}6"),
        epochs("epoch: {e}"),
        ["Epoch 3 of the talk", "the accuracy was 97.1 %"],
    ],
)
def test_options_code_names_of_files_and_what_may_mean_several_things_are_no_figures(lines: list[str]) -> None:
    assert figures(*lines)[1:] == (None, None)
    assert figures(*lines)[0] in (None, [1, 2, 3])
    if "loss" not in " ".join(lines):
        assert figures(*lines)[0] is None


def test_what_belongs_to_several_trainings_is_left_out_with_a_note() -> None:
    log = read(*epochs("epoch {e} loss {l}", 5), *epochs("epoch {e} loss {l}", 2))
    assert log["epochs_seen"] is None
    assert log["last_train_loss"] is None
    assert "a training begins again in line 6: epochs and the loss are left out" in log["notes"]


def test_a_metric_that_is_evaluated_no_more_is_not_the_last_evaluation() -> None:
    assert read("val_acc: 0.61", *epochs("step {e} loss {l} val_loss: {v}", 9))["final_eval"]["metric"] == "val_loss"


@pytest.mark.parametrize(("behind", "value"), [("(val)", 0.61), (" (test)", 0.61), ("[eval]", 0.61), (" (train)", 0.5)])
def test_a_loss_with_its_data_behind_it_is_of_these(behind: str, value: float) -> None:
    assert read(*epochs("Epoch {e}, Loss: {l}"), f"Epoch 3, Loss: 0.5{behind}")["last_train_loss"]["value"] == value


def test_nothing_is_read_beside_the_training_that_a_dialect_reads() -> None:
    mnist = "Train Epoch: {e} [640/60000 (1%)]\tLoss: {l}"
    log = read(*epochs("epoch {e} loss 7.{e} val_acc 0.9"), *epochs(mnist), *epochs("epoch {e} loss 7.{e} val_acc 0.9"))
    assert log["dialects"] == {"pytorch-mnist": 3}
    assert log["last_train_loss"]["value"] == 0.61
    assert log["final_eval"] is None


def test_the_lowest_rank_counts_of_very_many_that_print() -> None:
    log = read(*(f"[rank{rank}]: Train Epoch: 1 [640/60000 (1%)]\tLoss: {rank}.5" for rank in range(9_000, -1, -1)))
    assert log["last_train_loss"]["value"] == 0.5
    assert "more than 4,096 ranks and containers print here" in " ".join(log["notes"])


def test_no_best_is_chosen_among_unlike_data_and_none_is_believed_that_the_last_one_exceeds() -> None:
    sets = ["epoch {e} loss {l}", "Test set: accuracy: {e}1/90", "Val set: accuracy: {e}8/60"]
    lines = [line.format(e=e, l=f"0.{9 - e}1") for e in (1, 2, 3) for line in sets]
    found = read(*lines)
    assert (found["final_eval"]["samples"], found["best_eval"]) == (60, None)
    assert read(*lines, "best accuracy: 50.0%")["best_eval"] is None
