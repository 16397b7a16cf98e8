"""What the programs read, hashed without torch: `python -m experiments.mnist.inputs --dataset digits` prints JSON.

`data_sha256` is the hash that `experiments.mnist.data` computes of the tensors: the values of the four files.
"""

import argparse
import hashlib
import json
from pathlib import Path

from trainkit.archives import read_zipped
from trainkit.arguments import data_folder
from trainkit.errors import Refusal, reason
from trainkit.prepare import start

NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_LONGEST_HEADER = 16
LARGEST_BYTES = 60_000 * 28 * 28 + _LONGEST_HEADER


def main() -> None:
    """Hash the data set that the arguments name; other arguments of the programs are passed over."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--data-dir", type=Path, default=data_folder(__file__))
    args, _ = parser.parse_known_args()
    folder = Path(__file__).parent / "digits" if args.dataset == "digits" else args.data_dir / args.dataset
    digest = hashlib.sha256()
    try:
        for name in NAMES:
            digest.update(values(folder, name))
    except (OSError, ValueError) as error:
        raise Refusal(
            f"no whole {args.dataset} data in {folder} ({reason(error)}): run `runner prepare mnist`"
        ) from error
    print(json.dumps({"data_sha256": digest.hexdigest()}))


def values(folder: Path, name: str) -> bytes:
    """Return the values of an IDX file of bytes, gzipped or not, without its header; OSError, ValueError."""
    content = read_zipped(folder, name, LARGEST_BYTES)
    if len(content) < _LONGEST_HEADER:
        raise ValueError(f"{name} is torn")
    return content[4 + 4 * content[3] :]


if __name__ == "__main__":
    start(main)
