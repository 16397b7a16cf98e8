"""A tiny BERT with Hugging Face's Trainer.   torchrun --nproc-per-node 2 huggingface_text.py --num_train_epochs 2"""

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, HfArgumentParser, Trainer, TrainingArguments

from trainkit import running
from trainkit.huggingface import EventLines

WORDS = 40


class Sentences(torch.utils.data.Dataset):
    """Twelve words at random, and at a random place one of the words 2 and 3: the label says which."""

    def __init__(self, count, seed):
        random = torch.Generator().manual_seed(seed)
        self.words = torch.randint(4, WORDS, (count, 12), generator=random)
        self.labels = torch.randint(0, 2, (count,), generator=random)
        self.words.scatter_(1, torch.randint(1, 12, (count, 1), generator=random), 2 + self.labels[:, None])

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        return {"input_ids": self.words[index], "labels": self.labels[index]}


def accuracy(predicted):
    return {"accuracy": float((predicted.predictions.argmax(1) == predicted.label_ids).mean())}


def main():
    defaults = {
        "output_dir": tempfile.gettempdir(),
        "num_train_epochs": 2,
        "learning_rate": 3e-3,
        "per_device_train_batch_size": 32,
        "per_device_eval_batch_size": 64,
        "eval_strategy": "epoch",
        "logging_strategy": "epoch",
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": not torch.cuda.is_available(),  # or each process would train alone
    }
    parser = HfArgumentParser(TrainingArguments)
    parser.set_defaults(**defaults)
    (arguments,) = parser.parse_args_into_dataclasses()
    config = BertConfig(
        vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    with running() as run:
        trainer = Trainer(
            BertForSequenceClassification(config),
            arguments,
            train_dataset=Sentences(1000, seed=1),
            eval_dataset=Sentences(200, seed=2),
            compute_metrics=accuracy,
            callbacks=[EventLines(run)],
        )
        trainer.train()
        run.require_equal_parameters(trainer.model)


if __name__ == "__main__":
    main()
