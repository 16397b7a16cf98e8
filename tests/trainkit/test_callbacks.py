"""The callbacks of two frameworks, where these divide or round losses or evaluate within an epoch."""

from pathlib import Path

from tests.experiments.conftest import good
from tests.trainkit.conftest import Script

KEYS = ("epoch_num", "epochs", "samples", "steps", "loss")
EPOCHS = [[1, 2, 22, 3, 3.0], [2, 2, 22, 3, 3.0]]
LIGHTNING = """
    import time, torch, warnings
    import pytorch_lightning as pl
    from torch.utils.data import DataLoader, TensorDataset
    from trainkit import running
    from trainkit.lightning import EventLines
    warnings.simplefilter("ignore")

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
        def training_step(self, batch, batch_idx):
            return self.layer(batch["x"]).sum() * 0 + 3.0
        def validation_step(self, batch, batch_idx):
            time.sleep(0.2)
            self.log("val/error", 0.5)
            self.log("val_loss", 7.0)
            self.log("val_accuracy", 0.75)
            self.log("train_like", 1.0)
        def test_step(self, batch, batch_idx):
            self.log("test_acc", 0.25)
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 22
        def __getitem__(self, index):
            return {"x": torch.ones(1)}

    with running() as run:
        trainer = pl.Trainer(max_epochs=2, accumulate_grad_batches=2, val_check_interval=0.5, logger=False,
                             callbacks=[EventLines(run)], enable_checkpointing=False, enable_progress_bar=False,
                             enable_model_summary=False, accelerator="cpu", devices=1)
        model = Model()
        trainer.fit(model, DataLoader(Rows(), 4), DataLoader(Rows(), 22))
        trainer.test(model, DataLoader(Rows(), 11), verbose=False)
"""
HUGGING_FACE = """
    import sys, time, torch
    from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments
    from trainkit import running
    from trainkit.huggingface import EventLines

    class Model(PreTrainedModel):
        config_class = PretrainedConfig
        def __init__(self, config):
            super().__init__(config)
            self.layer = torch.nn.Linear(1, 1)
        def forward(self, x=None, labels=None):
            if not self.training:
                time.sleep(0.2)
            logits = self.layer(x)
            return {"loss": logits.sum() * 0 + 3.0, "logits": logits}

    rows = [{"x": torch.ones(1), "labels": 1} for _ in range(22)]
    with running() as run:
        arguments = TrainingArguments(
            output_dir=sys.argv[1], num_train_epochs=2, per_device_train_batch_size=4, gradient_accumulation_steps=2,
            per_device_eval_batch_size=22, eval_strategy="steps", eval_steps=2, logging_steps=1, save_strategy="no",
            report_to="none", disable_tqdm=True, use_cpu=True, seed=5)
        trainer = Trainer(Model(PretrainedConfig()), arguments, train_dataset=rows, eval_dataset=rows,
                          compute_metrics=lambda _: {"right": 0.75, "f1": 0.5},
                          callbacks=[EventLines(run, accuracy="eval_right")])
        trainer.train()
        assert not trainer.model._forward_pre_hooks
"""


def test_lightnings_loss_is_whole_and_validation_is_not_training(script: Script) -> None:
    ended = good(script(LIGHTNING))
    epochs = ended.told("epoch_stop")
    assert [[epoch[key] for key in KEYS] for epoch in epochs] == EPOCHS
    assert all(epoch["train_seconds"] < epoch["seconds"] - 0.35 for epoch in epochs)
    # Twice per epoch and once after the training, without the sanity check.
    assert ended.values("eval_accuracy") == [0.75] * 4 + [0.25]
    assert ended.told("eval_accuracy", "samples") == [22] * 5
    during = ended.told("eval_accuracy")[0]
    assert (during["loss"], during["val_error"], "train_like" in during) == (7.0, 0.5, False)
    assert (ended.stats["final_accuracy"], ended.stats["best_accuracy"]) == (0.25, 0.75)


def test_hugging_faces_trainer_is_counted_by_what_goes_through_the_model(script: Script, tmp_path: Path) -> None:
    ended = good(script(HUGGING_FACE, None, str(tmp_path)))
    epochs = ended.told("epoch_stop")
    assert [[epoch[key] for key in KEYS] for epoch in epochs] == EPOCHS
    assert epochs[0]["train_seconds"] < epochs[0]["seconds"] - 0.15
    assert ended.values("eval_accuracy") == [0.75] * 3
    tests = ended.told("eval_accuracy")
    assert [(test["epoch_num"], test["f1"], test["samples"]) for test in tests] == [(1, 0.5, 22), *[(2, 0.5, 22)] * 2]
    assert [ended.first(key)["value"] for key in ("seed", "global_batch_size")] == [5, 8]
    assert ended.stats["final_f1"] == 0.5
