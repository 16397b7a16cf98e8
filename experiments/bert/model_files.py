"""The files of a model as transformers saves them; imports no torch, for `prepare.py`."""

import hashlib
import json
import os
from collections.abc import Collection
from pathlib import Path

from trainkit.prepare import LIST, read_prepared, sha256_of

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
PICKLED = "pytorch_model.bin"
TOKENIZER = ("tokenizer.json", "vocab.txt")
MODEL_FILES = (CONFIG, WEIGHTS, *TOKENIZER, "tokenizer_config.json", "special_tokens_map.json")


def model_hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a model, by name; OSError or ValueError if one is missing or changed."""
    if os.path.lexists(folder / LIST):
        return read_prepared(folder)[1]
    # Files in the Hugging Face cache are links.
    found = {name: sha256_of((folder / name).resolve()) for name in MODEL_FILES if (folder / name).is_file()}
    if not found:
        raise ValueError(f"no model in {folder}")
    return found


def of_files(files: dict[str, str]) -> str:
    """Return one SHA-256 for several files, given each file's by name."""
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def missing_part(names: Collection[str]) -> str | None:
    """Return what a model with these files lacks, or None; pickled weights do not count."""
    if CONFIG not in names:
        return f"no config of a model in it (no {CONFIG})"
    if WEIGHTS not in names and PICKLED in names:
        return (
            f"its weights are pickled ({PICKLED}), which may run code and cannot be loaded with torch below 2.6: "
            f"use a model with {WEIGHTS}, or save this one again with transformers"
        )
    if WEIGHTS not in names:
        return f"no weights of a model in it (no {WEIGHTS})"
    if not any(name in names for name in TOKENIZER):
        return f"no tokenizer of a model in it (no {' or '.join(TOKENIZER)})"
    return None
