"""`SHA256SUMS`: what the folder of a run held when the run ended, file by file. `sha256sum -c SHA256SUMS` reads it too.

It finds damage and careless changes. Whoever alters a record on purpose can write a fitting manifest as well: to rule
that out, keep the hash of the manifest, or of a bundle, where others see it.

Lines that begin with `#` are comments for `sha256sum`: how the manifest was made, what was left out, and, last, the
hash of all lines above.
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
_LEFT_OUT = b"# left out: "
_FILE = re.compile(rb"(\\?)([0-9a-f]{64})  (.+)")
_ESCAPES = {b"\\\\": b"\\", b"\\n": b"\n", b"\\r": b"\r"}


@dataclass
class Manifest:
    """The SHA-256 of the files of a folder by their paths in it; `left_out` are the other paths, each with why.

    `said` are the comments about how it was made.
    """

    entries: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)


def hash_file(path: Path) -> str:
    """Hash a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def listing(folder: Path) -> tuple[list[str], dict[str, str]]:
    """List what a folder holds, by paths in it: regular files, and with why, what is none. No link is followed.

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
    return Manifest({name: hash_file(folder / name) for name in regular}, left_out, list(said))


def altered(manifest: Manifest, folder: Path) -> list[str]:
    """Name each file of a folder that is not as its manifest says, one line for each; an empty list if it is whole."""
    entries, left_out = manifest.entries, manifest.left_out
    try:
        regular, other = listing(folder)
        hashes = {name: hash_file(folder / name) for name in regular if name in entries}
    except OSError as error:
        return [f"{error.filename or folder}: {error.strerror}"]
    faults = dict.fromkeys((name for name in regular if name not in entries), "added: the run did not leave it")
    faults |= {name: "altered" for name, sha256 in hashes.items() if sha256 != entries[name]}
    faults |= {name: f"it is {why}" for name, why in other.items() if left_out.get(name) != why}
    faults |= dict.fromkeys({*entries, *left_out} - {*regular, *other}, "removed")
    return [f"{name}: {wrong}" for name, wrong in sorted(faults.items())]


def write(manifest: Manifest) -> bytes:
    """Write a manifest as the text of its file."""
    lines = [_FIRST, *(f"# {word}".encode() for word in manifest.said)]
    for name, sha256 in sorted(manifest.entries.items()):
        escaped = _escape(name)
        mark = b"" if escaped == os.fsencode(name) else b"\\"
        lines.append(mark + sha256.encode() + b"  " + escaped)
    lines += [_LEFT_OUT + _escape(name) + b": " + why.encode() for name, why in sorted(manifest.left_out.items())]
    text = b"\n".join(lines) + b"\n"
    return text + _LAST + hashlib.sha256(text).hexdigest().encode() + b"\n"


def read(text: bytes) -> Manifest:
    """Read the text of a manifest; ValueError if a byte of it was changed."""
    body, last, digest = text.rpartition(_LAST)
    if not last or digest != hashlib.sha256(body).hexdigest().encode() + b"\n":
        raise ValueError("altered or cut off: its last line is not the hash of those above")
    manifest = Manifest()
    for line in body.split(b"\n"):
        if found := _FILE.fullmatch(line):
            manifest.entries[_unescape(found[3]) if found[1] else os.fsdecode(found[3])] = found[2].decode()
        elif line.startswith(_LEFT_OUT):
            path, _, why = line.removeprefix(_LEFT_OUT).rpartition(b": ")
            manifest.left_out[_unescape(path)] = why.decode("utf-8", "replace")
        elif line.startswith(b"# ") and line != _FIRST and not line[2:3].isdigit():  # sizes, in those of docs/evidence
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
