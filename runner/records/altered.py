"""What differs between a folder and its manifest."""

import os
from pathlib import Path

from runner.records.manifest import TOO_LARGE, Entry, Manifest, hash_file, listing


def altered(manifest: Manifest, folder: Path) -> list[str]:
    """Name each file of a folder that is not as its manifest says, one line for each; an empty list if it is whole."""
    try:
        regular, other = listing(folder)
    except OSError as error:
        return [f"{error.filename or folder}: {error.strerror}"]
    large = {name for name, why in manifest.left_out.items() if why == TOO_LARGE}
    known = manifest.entries.keys() | large
    faults = {name: "added: the run did not leave it" for name in regular if name not in known}
    faults |= {name: f"it is {why}" for name, why in other.items() if manifest.left_out.get(name) != why}
    faults |= {name: "removed" for name in manifest.left_out if not os.path.lexists(folder / name)}
    there = set(regular)
    for name, entry in manifest.entries.items():
        if name in there and (wrong := _difference(folder / name, folder, entry)):
            faults[name] = wrong
        elif name not in there and name not in other:
            faults[name] = "removed"
    return [f"{name}: {wrong}" for name, wrong in sorted(faults.items())]


def _difference(path: Path, below: Path, entry: Entry) -> str | None:
    try:
        size = os.lstat(path).st_size
        found = hash_file(path, below) if size == entry.size else Entry("", size)
    except OSError as error:
        return error.strerror or str(error)
    if found.size != entry.size:
        return f"altered: it has {found.size:,} bytes, and had {entry.size:,}"
    return "altered: other bytes, as many as before" if found.sha256 != entry.sha256 else None
