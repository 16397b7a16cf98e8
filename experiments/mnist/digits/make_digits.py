"""Make the digits' IDX files from scikit-learn's copy of the UCI set.

By hand:  python -m experiments.mnist.digits.make_digits [FOLDER]

The output is the same every time.
"""

import gzip
import random
import struct
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits

SEED = 20240601
TEST_SAMPLES = 359
"""A prime, as 719 in 1,438 = 2 x 719 is, so that padded shards show in the counts."""


def idx_files() -> dict[str, bytes]:
    """Return the four files, uncompressed, by their MNIST names."""
    digits = load_digits()
    order = list(range(len(digits.target)))
    random.Random(SEED).shuffle(order)  # noqa: S311 - not a secret
    images = digits.images.astype(np.uint8)[order]
    labels = digits.target.astype(np.uint8)[order]
    cut = len(order) - TEST_SAMPLES
    return {
        "train-images-idx3-ubyte": idx(images[:cut]),
        "train-labels-idx1-ubyte": idx(labels[:cut]),
        "t10k-images-idx3-ubyte": idx(images[cut:]),
        "t10k-labels-idx1-ubyte": idx(labels[cut:]),
    }


def idx(array: npt.NDArray[np.uint8]) -> bytes:
    """Encode an array of bytes in the IDX format: magic number, shape (big-endian), values."""
    unsigned_byte = 0x08
    shape = array.shape
    header = struct.pack(f">HBB{len(shape)}I", 0, unsigned_byte, len(shape), *shape)
    return header + array.tobytes()


def main(folder: Path) -> None:
    """Write the four gzipped files into `folder`."""
    for name, content in idx_files().items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
