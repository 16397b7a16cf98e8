"""Sentences and a BERT of random weights, for a machine that has neither: the work is real, the words are not."""

import hashlib
import json
import random
from pathlib import Path

import torch

SENTENCES = 5331
"""Of each label, as rt-polarity has."""
WORDS = 21
"""Of a sentence on average, as there; lengths are even from 1 to twice as many."""
SIZES = {
    "base": {},  # transformers' own defaults are those of bert-base: 12 layers of 768
    "tiny": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64},
}
VOCABULARY = 30_522


def write_sentences(data_dir: Path, count: int = SENTENCES) -> None:
    """Write `count` sentences of each label as `runner prepare bert` does; a few words go with its label."""
    folder = data_dir / "bert" / "sentences"
    folder.mkdir(parents=True)
    files = {}
    for name in ("negative.txt", "positive.txt"):
        draws = random.Random(name)  # noqa: S311 - words without a meaning
        labelled = [f"{name[0]}{number}" for number in range(10)]
        lines = []
        for _ in range(count):
            words = [f"word{draws.randrange(2000)}" for _ in range(draws.randint(1, 2 * WORDS - 1))]
            lines.append(" ".join([*words, draws.choice(labelled)]))
        content = ("\n".join(lines) + "\n").encode()
        (folder / name).write_bytes(content)
        files[name] = hashlib.sha256(content).hexdigest()
    told_of = {"source": "made up by gpu-check", "files": files}
    (folder / "prepared.json").write_text(json.dumps(told_of), encoding="utf-8")


def write_model(folder: Path, size: str) -> Path:
    """Save a BERT of a size with random weights and the vocabulary of `write_sentences`, as transformers does."""
    from transformers import BertConfig, BertForSequenceClassification  # seconds, for BERT alone

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"{label}{n}" for label in "np" for n in range(10))]
    words += [f"word{number}" for number in range(2000)]
    vocabulary = VOCABULARY if size == "base" else len(words)
    words += [f"[unused{number}]" for number in range(vocabulary - len(words))]
    torch.manual_seed(1)
    config = BertConfig(vocab_size=vocabulary, **SIZES[size])
    BertForSequenceClassification(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 512}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder
