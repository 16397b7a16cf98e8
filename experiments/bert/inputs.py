"""The sentences and the model, hashed without torch: `python -m experiments.bert.inputs --data-dir DIR` prints JSON.

`data_sha256` is the hash over both that the programs report.
"""

import argparse
import json
from pathlib import Path

from experiments.bert.arguments import DATA, PREPARED
from experiments.bert.model_files import model_hashes, of_files
from trainkit.errors import Refusal, reason
from trainkit.prepare import read_prepared, start


def main() -> None:
    """Hash what the arguments name; other arguments of the programs are passed over."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--model", default=PREPARED)
    parser.add_argument("--data-dir", type=Path, default=Path(DATA))
    args, _ = parser.parse_known_args()
    base = args.data_dir / "bert"
    folder = base / "model" if args.model == PREPARED else Path(args.model)
    try:
        # A model that is named, and lies in the cache of Hugging Face, is not looked for.
        files = {**read_prepared(base / "sentences")[1], **model_hashes(folder)}
    except (OSError, ValueError) as error:
        raise Refusal(
            f"the sentences or the model in {base} are not whole ({reason(error)}): run `runner prepare bert`"
        ) from error
    print(json.dumps({"data_sha256": of_files(files)}))


if __name__ == "__main__":
    start(main)
