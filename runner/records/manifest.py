"""Write and check `SHA256SUMS`: the hashes of a finished run's files. `sha256sum -c SHA256SUMS` can check them too.

Comments begin with `#` and say how the manifest was made. The last comment holds the hash of the lines above. A
manifest detects damage and careless changes. Whoever alters a record on purpose can write a matching manifest. Only a
published hash of the manifest or bundle detects such a change.
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
    """Hashes of a folder: `entries` maps paths to SHA-256, and `said` holds comments on how the manifest was made."""

    entries: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def listing(folder: Path) -> tuple[list[str], dict[str, str]]:
    """List the files below a folder, except the manifest.

    Returns the paths of the regular files, and a mapping from the path of every other file to the file's kind. Links
    are not followed. Raises OSError if a folder cannot be read.
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
                    other[name] = "a link" if entry.is_symlink() else "a special file"
                elif name != NAME:
                    regular.append(name)
    return sorted(regular), dict(sorted(other.items()))


def make(folder: Path, said: Iterable[str] = (AT_THE_END,)) -> Manifest:
    """Hash every regular file of a folder. Raises OSError if a file cannot be read."""
    return Manifest({name: hash_file(folder / name) for name in listing(folder)[0]}, list(said))


def altered(manifest: Manifest, folder: Path) -> list[str]:
    """Return one line for each file that differs from the manifest."""
    entries = manifest.entries
    try:
        regular, other = listing(folder)
        hashes = {name: hash_file(folder / name) for name in regular if name in entries}
    except OSError as error:
        return [f"{error.filename or folder}: {error.strerror}"]
    faults = dict.fromkeys((name for name in regular if name not in entries), "added after the end of the run")
    faults |= {name: "altered" for name, sha256 in hashes.items() if sha256 != entries[name]}
    faults |= {name: f"now {other[name]}" if name in other else "removed" for name in entries.keys() - hashes.keys()}
    return [f"{name}: {wrong}" for name, wrong in sorted(faults.items())]


def write(manifest: Manifest) -> bytes:
    """Return the text of a manifest, with names escaped as `sha256sum` does."""
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
    """Parse the text of a manifest. Raises ValueError if any byte was changed."""
    body, last, digest = text.rpartition(_LAST)
    if not last or digest != hashlib.sha256(body).hexdigest().encode() + b"\n":
        raise ValueError("altered or cut off: the last line is not the hash of the lines above")
    manifest = Manifest()
    for line in body.split(b"\n"):
        if file := _FILE.fullmatch(line):
            name = re.sub(rb"\\[\\nr]", lambda escape: _ESCAPES[escape[0]], file[3]) if file[1] else file[3]
            manifest.entries[os.fsdecode(name)] = file[2].decode()
        elif line.startswith(b"# ") and line != _FIRST and not line[2:3].isdigit():  # old manifests hold sizes
            manifest.said.append(line[2:].decode("utf-8", "replace"))
    return manifest
