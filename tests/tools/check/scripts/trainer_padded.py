"""Sequence classification with the Hugging Face Trainer, a collator that pads, and accumulated gradients."""

import os
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed


class Reviews(Dataset):
    def __init__(self, texts, labels):
        self.texts, self.labels = texts, labels

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        return {"input_ids": self.texts[index], "label": self.labels[index]}


def pad(features):
    longest = max(len(f["input_ids"]) for f in features)
    ids = torch.zeros(len(features), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, f in enumerate(features):
        ids[row, : len(f["input_ids"])] = torch.as_tensor(f["input_ids"])
        mask[row, : len(f["input_ids"])] = 1
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([f["label"] for f in features])}


class SmoothTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = torch.nn.functional.cross_entropy(outputs.logits, labels, label_smoothing=0.1)
        return (loss, outputs) if return_outputs else loss


def main():
    set_seed(3)
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    rng = np.random.default_rng(0)
    texts = [rng.integers(3, 40, size=rng.integers(4, 20)) for _ in range(500)]
    labels = [int((text > 20).mean() > 0.5) for text in texts]
    config = BertConfig(vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, use_cpu=True, num_train_epochs=2, per_device_train_batch_size=20 // world_size,
            gradient_accumulation_steps=2, learning_rate=5e-3, report_to=[], save_strategy="no", eval_strategy="epoch",
            disable_tqdm=True, ddp_backend="gloo", logging_steps=5,
        )  # fmt: skip
        trainer = SmoothTrainer(
            BertForSequenceClassification(config), args, data_collator=pad,
            train_dataset=Reviews(texts[:400], labels), eval_dataset=Reviews(texts[400:], labels[400:]),
            compute_metrics=lambda p: {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())},
        )  # fmt: skip
        trainer.train()


if __name__ == "__main__":
    main()
