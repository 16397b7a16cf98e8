"""Level 0: the folder of a run holds what it held when the run ended, byte for byte, and its record what raw/ says.

A record that this very reader has made has to be the same, value by value. Another version may read more, or read it
otherwise: of its records only the figures that programs print as they are, in event lines, are held against `raw/`.
"""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from runner.core.errors import RequestError, reason_of
from runner.core.layout import Layout
from runner.core.text import listed, one_line, shown
from runner.records import manifest
from runner.records.altered import altered
from runner.records.decode import read_launch, read_record
from runner.records.folder import RunFolder
from runner.records.listing import RECORD, run_folders
from runner.records.parse import collect
from runner.records.provenance import READER, hash_reader
from runner.records.schema import Record
from runner.tools.proof.level import Check
from trainkit.files import is_folder

NAME = "raw output"
BUNDLED = ("masked by runner bundle: ", "left out by runner bundle: ")
_PRINTED = ("metrics", "epochs", "evaluations")
_COMPUTED = ("metrics.total_seconds",)
"""Metrics that no program prints: a version of the kit computes them."""
_ABSENT = object()
_SAME = Check(NAME, True, "read again, it gives the same record")


def runs_at(path: Path, notes: list[str]) -> list[Path]:
    """Return the folder itself if it is a run's, else the runs below it; RequestError if there are none.

    `notes` takes a line for each folder that was not looked into.
    """
    if not is_folder(path):
        why = "it is a link, and links are not followed" if path.is_symlink() else "there is no such folder"
        raise RequestError(f"{one_line(path)}: {why}")
    if _is_run(path):
        return [path]
    found = [path / entry.path[len(str(path)) + 1 :] for entry in run_folders(path, notes)]
    if not (runs := [folder for folder in found if _is_run(folder)]):
        raise RequestError(f"{one_line(path)}: neither a run's folder nor a folder of runs")
    return runs


def _is_run(folder: Path) -> bool:
    return any(os.path.lexists(folder / name) for name in (RECORD, manifest.NAME, "raw"))


def check_whole(path: Path) -> tuple[Record | None, list[str], Check | None]:
    """Compare a run's folder with its manifest, and its record with its raw files.

    Returns the record, if it can be read, one line for each fault of the folder, and what was found of the raw files.
    """
    folder = RunFolder(path)
    try:
        record = folder.read()
    except (OSError, ValueError) as error:
        record, broken = None, one_line(f"{RECORD}: {reason_of(error)}")
    try:
        known = folder.kept_manifest()
    except FileNotFoundError:
        return record, [_without(record, path) if record else broken], None
    except (OSError, ValueError) as error:
        return record, [one_line(f"{manifest.NAME}: {reason_of(error)}")], None
    faults = altered(known, path)
    if record is None or faults or record.status == "running":
        return record, faults or ([] if record else [broken]), None
    return record, *read_again(folder, record, known.said)


def _without(record: Record, path: Path) -> str:
    """Return why a run has no manifest, and how it gets one."""
    if record.status == "running":
        why = "it has not ended, or is not collected"
    else:
        why = f"{manifest.NAME} was removed, or there was no room for it"
    return f"no manifest: {why}: runner collect {shlex.quote(one_line(path))}"


def read_again(folder: RunFolder, record: Record, said: list[str]) -> tuple[list[str], Check]:
    """Parse the raw files of a run that has ended and compare; `said` are the comments of its manifest.

    Returns the faults of its record, and what there is to say of it.
    """
    own = record.launch.runner.get(READER) == hash_reader()
    try:
        found = _compared(folder, record)
    except (OSError, ValueError, RecursionError) as error:
        why = one_line(reason_of(error), 300)
        return [f"{RECORD}: what it was made from cannot be read: {why}"] if own else [], Check(NAME, None, why)
    hidden = bool(record.launch.masked) or any(line.startswith(BUNDLED) for line in said)
    if own and not hidden:
        return [_fault(*values) for values in found], _SAME
    certain = [] if record.launch.dialects and not own else [values for values in found if _is_printed(*values)]
    if certain or not found:
        return [_fault(*values) for values in certain], _SAME
    found.sort(key=lambda values: not values[0].startswith(_PRINTED))
    version = one_line(record.launch.runner.get("version"), 40)
    why = "what is masked or left out of it" if own else f"another version ({version}) made the record"
    return [], Check(NAME, None, f"{why}: {_words(found)}")


def _compared(folder: RunFolder, record: Record) -> list[tuple[str, Any, Any]]:
    """Return what differs between a record and its raw files: the name, the value in the record, the value now."""
    parsed = collect(folder, folder.launch(), folder.outcome())
    now = msgspec.to_builtins(read_record(msgspec.json.encode(parsed)))
    launch = read_launch(msgspec.json.encode(record.launch))  # without what few readers of JSON can carry
    kept = msgspec.to_builtins(record) | {"launch": msgspec.to_builtins(launch)}
    broken = folder.exits(folder.raw_files(Layout.parse(record.launch.layout)))[1]
    for values in (kept, now):  # a run that was started by hand has these doubts when it is collected first
        values["doubts"] = [doubt for doubt in values.get("doubts", []) if doubt not in broken]
    return list(_differences("", kept, now))


def _is_printed(name: str, kept: object, now: object) -> bool:
    """Return whether two values are figures as a program printed them, which every version reads alike."""
    are_numbers = isinstance(kept, int | float) and isinstance(now, int | float)
    return are_numbers and name.startswith(_PRINTED) and name not in _COMPUTED


def _differences(name: str, kept: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield each value that differs, with its name, for example `metrics.train_seconds`."""
    if isinstance(kept, dict) and isinstance(now, dict):
        for key in {**kept, **now}:
            yield from _differences(f"{name}.{key}" if name else key, kept.get(key, _ABSENT), now.get(key, _ABSENT))
    elif isinstance(kept, list) and isinstance(now, list) and len(kept) == len(now):
        for number, values in enumerate(zip(kept, now, strict=True)):
            yield from _differences(f"{name}[{number}]", *values)
    elif kept != now:
        yield name, kept, now


def _fault(name: str, kept: object, now: object) -> str:
    words = f"altered: {name} is {_value(kept)} in it, and {_value(now)} in raw/ and request/"
    return one_line(f"{RECORD}: {words}; runner collect writes it again", 500)


def _words(found: list[tuple[str, Any, Any]]) -> str:
    said = "{} is {} in it, and this version reads {}".format
    values = [said(one_line(name, 100), _value(kept), _value(now)) for name, kept, now in found]
    return one_line(listed(values, "; ", most=3), 600)


def _value(value: object) -> str:
    return "absent" if value is _ABSENT else shown(value, 60)
