"""A causal language model, trained with the Hugging Face Trainer on a stream that has no length."""

import os
import tempfile

import torch
from torch.utils.data import IterableDataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))
RANK = int(os.environ.get("RANK", "0"))


class Corpus(IterableDataset):
    def __iter__(self):
        generator = torch.Generator().manual_seed(5)
        for number in range(384):
            ids = torch.randint(0, 4, (12,), generator=generator).cumsum(0) % 16
            yield {"input_ids": ids, "labels": ids.clone()}


def main():
    set_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=16, n_positions=16, n_embd=16, n_layer=1, n_head=2, attn_pdrop=0.0, embd_pdrop=0.0,
            resid_pdrop=0.0, bos_token_id=0, eos_token_id=0,
        )
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, use_cpu=True, max_steps=24, per_device_train_batch_size=16 // WORLD_SIZE, learning_rate=3e-3,
            report_to=[], save_strategy="no", logging_steps=8, disable_tqdm=True, ddp_backend="gloo", max_grad_norm=0.5,
        )  # fmt: skip
        Trainer(model, args, train_dataset=Corpus()).train()


if __name__ == "__main__":
    main()
