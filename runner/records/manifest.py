"""`SHA256SUMS`: what the folder of a run held when the run ended, file by file. `sha256sum -c SHA256SUMS` reads it too.

It finds damage and careless changes. Whoever alters a record on purpose can write a fitting manifest as well: to rule
that out, keep the hash of the manifest, or of a bundle, where others see it.

The lines that begin with `#` are comments for `sha256sum`: the size of each file, what was left out, and, last, the
hash of all lines above.
"""

import errno
import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from trainkit import files

NAME = "SHA256SUMS"
AT_THE_END = "written at the end of the run"
LATER = "made by runner collect, not at the end of the run: what was altered before is not found"
LARGEST = 200_000_000
LARGEST_FILE = 8_000_000_000
"""Bytes of a file that is hashed; of a raw file as large nothing is read either."""
MOST_BYTES = 32_000_000_000
"""Bytes of all files that are hashed, the smallest first; a run may leave checkpoints, and its end should not wait."""
TOO_LARGE = "too large to be hashed"
_BLOCK = 1 << 20
_FIRST = b"# manifest of a run, version 1; check it with: runner verify, or sha256sum -c " + NAME.encode()
_LAST = b"# sha256 of the lines above: "
_LEFT_OUT = b"# left out: "
_SIZE = re.compile(rb"# (\d{1,18}) bytes")
_FILE = re.compile(rb"(\\?)([0-9a-f]{64})  (.+)")
_ESCAPES = {b"\\\\": b"\\", b"\\n": b"\n", b"\\r": b"\r"}


class Entry(NamedTuple):
    """A file: the SHA-256 of its bytes, and how many they are."""

    sha256: str
    size: int


@dataclass
class Manifest:
    """The files of a folder by their paths in it; `left_out` are paths that are no regular files, each with why.

    `said` are the comments about how it was made.
    """

    entries: dict[str, Entry] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)


def hash_file(path: Path, below: Path) -> Entry:
    """Hash a regular file that no link leads to; OSError says what else it is."""
    digest, size = hashlib.sha256(), 0
    with files.open_file(path, below) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            size += len(block)
            if size > LARGEST_FILE:
                raise OSError(errno.EFBIG, f"it has more than {LARGEST_FILE:,} bytes", str(path))
    return Entry(digest.hexdigest(), size)


def listing(folder: Path) -> tuple[list[str], dict[str, str]]:
    """List what a folder holds, by paths in it: regular files, and with why, what is none. Nothing is followed.

    The manifest itself is not listed. OSError if a folder cannot be read.
    """
    regular: list[str] = []
    other: dict[str, str] = {}
    deep = [""]
    while deep:
        inner = deep.pop()
        with os.scandir(f"{folder}/{inner}") as found:
            for entry in found:
                name = f"{inner}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    deep.append(f"{name}/")
                elif entry.is_file(follow_symlinks=False):
                    regular.append(name)
                else:
                    other[name] = "a link" if entry.is_symlink() else "no regular file"
    return sorted(name for name in regular if name != NAME), dict(sorted(other.items()))


def make(folder: Path, said: Iterable[str] = (AT_THE_END,)) -> Manifest:
    """Hash every file of a folder; OSError if one cannot be read."""
    regular, left_out = listing(folder)
    entries, total = {}, 0
    for size, name in sorted((os.lstat(folder / name).st_size, name) for name in regular):
        total += size
        if size > LARGEST_FILE or total > MOST_BYTES:
            left_out[name] = TOO_LARGE
        else:
            entries[name] = hash_file(folder / name, folder)
    return Manifest(entries, left_out, list(said))


def write(manifest: Manifest) -> bytes:
    """Write a manifest as the text of its file."""
    lines = [_FIRST, *(f"# {word}".encode() for word in manifest.said)]
    for name, (sha256, size) in sorted(manifest.entries.items()):
        escaped = _escape(name)
        mark = b"" if escaped == os.fsencode(name) else b"\\"
        lines += [f"# {size} bytes".encode(), mark + sha256.encode() + b"  " + escaped]
    lines += [_LEFT_OUT + _escape(name) + b": " + why.encode() for name, why in sorted(manifest.left_out.items())]
    text = b"\n".join(lines) + b"\n"
    return text + _LAST + hashlib.sha256(text).hexdigest().encode() + b"\n"


def read(text: bytes) -> Manifest:
    """Read the text of a manifest; ValueError if a byte of it was changed."""
    body, last, digest = text.rpartition(_LAST)
    if not last or digest != hashlib.sha256(body).hexdigest().encode() + b"\n":
        raise ValueError("altered or cut off: its last line is not the hash of those above")
    manifest, size = Manifest(), 0
    for line in body.split(b"\n"):
        if found := _FILE.fullmatch(line):
            name = _unescape(found[3]) if found[1] else os.fsdecode(found[3])
            manifest.entries[name] = Entry(found[2].decode(), size)
        elif sized := _SIZE.fullmatch(line):
            size = int(sized[1])
        elif line.startswith(_LEFT_OUT):
            path, _, why = line.removeprefix(_LEFT_OUT).rpartition(b": ")
            manifest.left_out[_unescape(path)] = why.decode("utf-8", "replace")
        elif line.startswith(b"# ") and line != _FIRST:
            manifest.said.append(line[2:].decode("utf-8", "replace"))
    return manifest


def _escape(name: str) -> bytes:
    """Write a name in one line, as `sha256sum` does."""
    data = os.fsencode(name)
    for escape, plain in _ESCAPES.items():
        data = data.replace(plain, escape)
    return data


def _unescape(name: bytes) -> str:
    return os.fsdecode(re.sub(rb"\\[\\nr]", lambda found: _ESCAPES[found[0]], name))
