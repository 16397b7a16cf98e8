"""`SHA256SUMS`: what the folder of a run held when the run ended, file by file. `sha256sum -c SHA256SUMS` reads it too.

It finds damage and careless changes of regular files; links are not followed. Whoever alters a record on purpose can
write a fitting manifest as well: to rule that out, keep the hash of the manifest, or of a bundle, where others see it.

Lines that begin with `#` are comments for `sha256sum`: how the manifest was made, and, last, the hash of all lines
above.
"""

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

NAME = "SHA256SUMS"
AT_THE_END = "written at the end of the run"
LATER = "made by runner collect, not at the end of the run: what was altered before is not found"
_BLOCK = 1 << 20
_FIRST = b"# manifest of a run, version 1; check it with: runner verify, or sha256sum -c " + NAME.encode()
_LAST = b"# sha256 of the lines above: "
_FILE = re.compile(rb"(\\?)([0-9a-f]{64})  (.+)")
_ESCAPES = {b"\\\\": b"\\", b"\\n": b"\n", b"\\r": b"\r"}


@dataclass
class Manifest:
    """The SHA-256 of the files of a folder by their paths in it; `said` are comments about how it was made."""

    entries: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)


def hash_file(path: Path) -> str:
    """Hash a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def listing(folder: Path) -> tuple[list[str], dict[str, str]]:
    """List what a folder holds, by paths in it: regular files but the manifest, and what else it is of the others.

    No link is followed. OSError if a folder cannot be read.
    """
    regular: list[str] = []
    other: dict[str, str] = {}
    deep = [""]
    while deep:
        inner = deep.pop()
        with os.scandir(f"{folder}/{inner}") as entries:
            for entry in entries:
                name = f"{inner}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    deep.append(f"{name}/")
                elif not entry.is_file(follow_symlinks=False):
                    other[name] = "a link" if entry.is_symlink() else "no regular file"
                elif name != NAME:
                    regular.append(name)
    return sorted(regular), dict(sorted(other.items()))


def make(folder: Path, said: Iterable[str] = (AT_THE_END,)) -> Manifest:
    """Hash every file of a folder; OSError if one cannot be read."""
    return Manifest({name: hash_file(folder / name) for name in listing(folder)[0]}, list(said))


def altered(manifest: Manifest, folder: Path) -> list[str]:
    """Name each file of a folder that is not as its manifest says, one line for each; an empty list if it is whole."""
    entries = manifest.entries
    try:
        regular, other = listing(folder)
        hashes = {name: hash_file(folder / name) for name in regular if name in entries}
    except OSError as error:
        return [f"{error.filename or folder}: {error.strerror}"]
    faults = dict.fromkeys((name for name in regular if name not in entries), "added: the run did not leave it")
    faults |= {name: "altered" for name, sha256 in hashes.items() if sha256 != entries[name]}
    faults |= {name: f"it is {other[name]}" if name in other else "removed" for name in entries.keys() - hashes.keys()}
    return [f"{name}: {wrong}" for name, wrong in sorted(faults.items())]


def write(manifest: Manifest) -> bytes:
    """Write a manifest as the text of its file; names are escaped as `sha256sum` does."""
    lines = [_FIRST, *(f"# {word}".encode() for word in manifest.said)]
    for name, sha256 in sorted(manifest.entries.items()):
        data = os.fsencode(name)
        for escape, plain in _ESCAPES.items():
            data = data.replace(plain, escape)
        mark = b"" if data == os.fsencode(name) else b"\\"
        lines.append(mark + sha256.encode() + b"  " + data)
    text = b"\n".join(lines) + b"\n"
    return text + _LAST + hashlib.sha256(text).hexdigest().encode() + b"\n"


def read(text: bytes) -> Manifest:
    """Read the text of a manifest; ValueError if a byte of it was changed."""
    body, last, digest = text.rpartition(_LAST)
    if not last or digest != hashlib.sha256(body).hexdigest().encode() + b"\n":
        raise ValueError("altered or cut off: its last line is not the hash of those above")
    manifest = Manifest()
    for line in body.split(b"\n"):
        if file := _FILE.fullmatch(line):
            name = re.sub(rb"\\[\\nr]", lambda escape: _ESCAPES[escape[0]], file[3]) if file[1] else file[3]
            manifest.entries[os.fsdecode(name)] = file[2].decode()
        elif line.startswith(b"# ") and line != _FIRST and not line[2:3].isdigit():  # sizes, in those of docs/evidence
            manifest.said.append(line[2:].decode("utf-8", "replace"))
    return manifest
