"""Level 0: the folder of a run holds what it held when the run ended, byte for byte."""

from __future__ import annotations

import shlex
from pathlib import Path

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.records import manifest
from runner.records.folder import RunFolder
from runner.records.listing import RECORD, run_folders
from runner.records.schema import Record
from runner.tools.proof.level import Check
from runner.tools.proof.reread import read_again
from trainkit.files import is_folder


def runs_at(path: Path, notes: list[str]) -> list[Path]:
    """Return the folder itself if it is a run's, else the runs below it; RequestError if there are none.

    `notes` takes a line for each folder that was not looked into.
    """
    if not is_folder(path):
        why = "it is a link, and links are not followed" if path.is_symlink() else "there is no such folder"
        raise RequestError(f"{one_line(path)}: {why}")
    if any(_there(path / name) for name in (RECORD, manifest.NAME, "raw")):
        return [path]
    found = [path / entry.path[len(str(path)) + 1 :] for entry in run_folders(path, notes)]
    found = [one for one in found if any(_there(one / name) for name in (RECORD, manifest.NAME, "raw"))]
    if not found:
        raise RequestError(f"{one_line(path)}: neither a run's folder nor a folder of runs")
    return found


def check_whole(path: Path) -> tuple[Record | None, list[str]]:
    """Return a run's record, if it can be read, and one line for each fault of its folder."""
    record, faults, _ = look_whole(path)
    return record, faults


def look_whole(path: Path) -> tuple[Record | None, list[str], Check | None]:
    """Compare a run's folder with its manifest, and its record with its raw files; say what was found of these."""
    folder = RunFolder(path)
    try:
        record = folder.read()
    except (OSError, ValueError) as error:
        record, broken = None, one_line(f"{RECORD}: {_why(error)}")
    try:
        known = folder.kept_manifest()
    except FileNotFoundError:
        return record, [_without(record, path) if record else broken], None
    except (OSError, ValueError) as error:
        return record, [one_line(f"{manifest.NAME}: {_why(error)}")], None
    faults = manifest.differences(known, path)
    if record is None or faults or record.status == "running":
        return record, faults or ([] if record else [broken]), None
    return record, *read_again(folder, record, known.said)


def _without(record: Record, path: Path) -> str:
    """Say why a run has no manifest, and how it gets one."""
    collect = f"runner collect {shlex.quote(one_line(path))}"
    launch = record.launch
    if record.status == "running":
        what = "it was started by hand and is not collected" if launch.by_hand else "it still runs, or was killed"
        return f"no manifest: {what}: {collect}"
    if launch.runner.get("manifest"):
        return f"{manifest.NAME}: removed, or there was no room for it"
    return f"no manifest: made before runs had one; {collect} makes one of what is there now"


def _there(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
