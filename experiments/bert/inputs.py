"""The sentences and the model, hashed without torch: `python -m experiments.bert.inputs --data-dir DIR` prints JSON.

`data_sha256` is the hash over both that the programs report, `sentences.of_files`.
"""

import argparse
import hashlib
import json
import os
from pathlib import Path

from experiments.bert.arguments import DATA, PREPARED
from experiments.bert.model_files import MODEL_FILES
from trainkit.errors import Refusal, reason
from trainkit.prepare import LIST, read_prepared, sha256_of, start


def main() -> None:
    """Hash what the arguments name; other arguments of the programs are passed over."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--model", default=PREPARED)
    parser.add_argument("--data-dir", type=Path, default=Path(DATA))
    args, _ = parser.parse_known_args()
    base = args.data_dir / "bert"
    folder = base / "model" if args.model == PREPARED else Path(args.model)
    try:
        files = {**read_prepared(base / "sentences")[1], **model(folder)}
    except (OSError, ValueError) as error:
        raise Refusal(
            f"the sentences or the model in {base} are not whole ({reason(error)}): run `runner prepare bert`"
        ) from error
    print(json.dumps({"data_sha256": hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()}))


def model(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of a model that is read; OSError, ValueError if one is not there or not whole.

    A model that is named, and lies in the cache of Hugging Face, is not looked for.
    """
    if os.path.lexists(folder / LIST):
        return read_prepared(folder)[1]
    found = {name: sha256_of((folder / name).resolve()) for name in MODEL_FILES if (folder / name).is_file()}
    if not found:
        raise ValueError(f"no model in {folder}")
    return found


if __name__ == "__main__":
    start(main)
