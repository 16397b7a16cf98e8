"""A small BERT, and sentences for it."""

import random
from pathlib import Path

from experiments.bert.prepare import prepare

EACH = 201
"""Sentences per label. 402 = 41 + 361: neither divides by 2 or 3."""
FILLERS = [f"filler{number}" for number in range(30)]


def sentences(label: str) -> list[str]:
    """Return sentences of 3 to 39 words in which only a unique name depends on the label."""
    draws = random.Random(label)
    fillers = [draws.choices(FILLERS, k=draws.randint(1, 13)) for _ in range(EACH)]
    return [" ".join([*words, *[f"{label}{number}"] * 2 * len(words)]) for number, words in enumerate(fillers)]


def write_model(folder: Path, dropout: float = 0.0) -> Path:
    """Save a model with random weights and its vocabulary in transformers' format."""
    import torch  # slow imports, which test collection should not need
    from transformers import BertConfig, BertForSequenceClassification

    names = [f"{label}{number}" for label in ("pos", "neg") for number in range(EACH)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *FILLERS, *names]
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    torch.manual_seed(1)
    BertForSequenceClassification(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", "utf-8")
    return folder


def make(folder: Path) -> Path:
    """Prepare a data folder, and a second model with dropout beside it."""
    source = folder / "source"
    source.mkdir()
    for ending in ("pos", "neg"):
        (source / f"rt-polarity.{ending}").write_text("\n".join(sentences(ending)) + "\n", "utf-8")
    write_model(folder / "dropout", dropout=0.1)
    prepare(folder, source, write_model(folder / "source-model"), from_packages=False)
    return folder
