"""A BERT that is small enough for tests, and sentences for it."""

import random
from pathlib import Path

from experiments.bert.prepare import prepare

EACH = 201
"""Sentences of each label. 402 = 41 + 361: neither divides by 2 or 3."""
FILLERS = [f"filler{number}" for number in range(30)]


def sentences(label: str) -> list[str]:
    """Sentences of 3 to 39 words, of which only the name, theirs alone, goes with the label."""
    draws = random.Random(label)
    fillers = [draws.choices(FILLERS, k=draws.randint(1, 13)) for _ in range(EACH)]
    return [" ".join([*words, *[f"{label}{number}"] * 2 * len(words)]) for number, words in enumerate(fillers)]


def write_sentences(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for ending in ("pos", "neg"):
        (folder / f"rt-polarity.{ending}").write_text("\n".join(sentences(ending)) + "\n", "utf-8")
    return folder


def write_model(folder: Path, dropout: float = 0.0) -> Path:
    """Save a model with random weights and its vocabulary, as transformers does."""
    import torch  # these take ten seconds of a core, in every worker that only collects the tests
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
    """Prepare a data folder; a second model, with dropout, lies beside it."""
    source, model = write_sentences(folder / "source"), write_model(folder / "source-model")
    write_model(folder / "dropout", dropout=0.1)
    prepare(folder, source, model, from_packages=False)
    return folder
