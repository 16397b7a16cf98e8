"""Check proof level 0, that a run's files are unaltered, and level 1, that its raw files give its record."""

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from runner.core.errors import RequestError, reason_of
from runner.core.text import listed, one_line, shown
from runner.records import manifest
from runner.records.folder import RunFolder
from runner.records.listing import RECORD, run_folders
from runner.records.parse import collect
from runner.records.provenance import READER, hash_reader
from runner.records.schema import Record, read_launch, read_record
from trainkit.files import is_folder

BUNDLED = ("masked by runner bundle: ", "left out by runner bundle: ")
_ABSENT = object()
LEVELS = {
    0: "the record is whole",
    1: "its output gives the same record again",
    2: "run again, every loss and the final parameters are bit for bit the same",
}


@dataclass(frozen=True)
class Check:
    """The result of one check. If `same` is None, the check was impossible, and `says` gives the reason."""

    name: str
    same: bool | None
    says: str

    def __str__(self) -> str:
        return f"{self.name}: {'not checked: ' if self.same is None else ''}{self.says}"


@dataclass
class Verdict:
    """The proof level of a run. If a higher level was asked for, `stopped` lists why the run does not reach it."""

    run: str
    level: int | None = None
    stopped: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def runs_at(path: Path, notes: list[str]) -> list[Path]:
    """Return the folders of the runs below a folder, or the folder itself if it is a run's.

    `notes` gets a line for each folder that was skipped. Raises RequestError if there are no runs.
    """
    if not is_folder(path):
        why = "it is a link, and links are not followed" if path.is_symlink() else "there is no such folder"
        raise RequestError(f"{one_line(path)}: {why}")
    if _is_run(path):
        return [path]
    runs = [folder for entry in run_folders(path, notes) if _is_run(folder := Path(entry.path))]
    if not runs:
        raise RequestError(f"{one_line(path)}: neither a run's folder nor a folder of runs")
    return runs


def _is_run(folder: Path) -> bool:
    return any(os.path.lexists(folder / name) for name in (RECORD, manifest.NAME, "raw"))


def verify(path: Path, level: int) -> Verdict:
    """Return the proof level that a run reaches, with the reasons. Levels above `level` (0 or 1) are not checked."""
    record, faults = check_whole(path)
    verdict = Verdict(one_line(path), stopped=faults)
    if record is None or faults:
        return verdict
    verdict.level = 0
    if record.status != "completed":
        verdict.notes.append(f"the run is {record.status}: {one_line(record.reason or '', 200)}")
    if chosen := " ".join(f"{name}={value}" for name, value in repeat_with(record).items()):
        verdict.notes.append(f"the run followed the clock; runner reproduce gives it {one_line(chosen, 200)}")
    notes = RunFolder(path).kept_manifest().said
    verdict.notes += [words for words in notes if words not in (manifest.AT_THE_END, manifest.LATER)]
    if manifest.AT_THE_END not in notes and not record.launch.by_hand:
        verdict.checks.append(Check("manifest", None, manifest.LATER))
    if record.launch.masked:
        verdict.checks.append(Check("secrets", None, f"masked in {one_line(listed(record.launch.masked), 200)}"))
    if level:
        verdict.checks.append(check := read_again(path, record))
        verdict.level, verdict.stopped = (1, []) if check.same else (0, [str(check)])
    return verdict


def repeat_with(record: Record) -> dict[str, str]:
    """Return the arguments with which a new run repeats a run's decisions by the clock. The old run reported them."""
    reported = record.facts.get("repeat_with")
    chosen = reported.items() if isinstance(reported, dict) else ()
    return {name: value for name, value in chosen if name in record.launch.args and isinstance(value, str)}


def check_whole(path: Path) -> tuple[Record | None, list[str]]:
    """Compare a run's folder with its manifest. Returns the record (None if it is unreadable) and the faults."""
    folder = RunFolder(path)
    try:
        record = folder.read()
    except (OSError, ValueError) as error:
        record, broken = None, [one_line(f"{RECORD}: {reason_of(error)}")]
    else:
        broken = []
    try:
        return record, manifest.altered(folder.kept_manifest(), path) or broken
    except FileNotFoundError:
        is_open = record is not None and record.status == "running"
        why = "it has not ended, or was not collected" if is_open else "it was removed, or there was no room for it"
        return record, broken or [f"no manifest: {why}: runner collect {shlex.quote(one_line(path))}"]
    except (OSError, ValueError) as error:
        return record, [one_line(f"{manifest.NAME}: {reason_of(error)}")]


def check_whole_and_parsed(path: Path) -> tuple[Record | None, list[str]]:
    """Check a run as `check_whole` does, and add a fault if its raw files contradict its record."""
    record, faults = check_whole(path)
    if record and not faults and (parsed := read_again(path, record)).same is False:
        faults = [str(parsed)]
    return record, faults


def read_again(path: Path, record: Record) -> Check:
    """Parse the raw files of an ended run again, and compare the result with its record.

    A difference is a fault only if this version of the runner made the record, and nothing is masked or left out.
    In other cases, a difference makes `same` None.
    """
    folder, name = RunFolder(path), "raw output"
    is_own = record.launch.runner.get(READER) == hash_reader()
    try:
        differing = list(_compared(folder, record))
    except (OSError, ValueError, RecursionError) as error:
        return Check(name, False if is_own else None, f"it cannot be read again: {one_line(reason_of(error), 300)}")
    if not differing:
        return Check(name, True, "read again, it gives the same record")
    texts = [
        f"{one_line(key, 100)} is {_value(kept)} in {RECORD}, and {_value(now)} in raw/" for key, kept, now in differing
    ]
    words = one_line(listed(texts, "; ", most=3), 600)
    if not is_own:
        version = one_line(record.launch.runner.get("version"), 40)
        return Check(name, None, f"another version ({version}) made the record: {words}")
    if record.launch.masked or any(line.startswith(BUNDLED) for line in folder.kept_manifest().said):
        return Check(name, None, f"parts are masked or left out: {words}")
    return Check(name, False, f"{RECORD} was altered: {words}; runner collect writes it again")


def _compared(folder: RunFolder, record: Record) -> Iterator[tuple[str, Any, Any]]:
    parsed = collect(folder, folder.launch(), folder.outcome())
    now = msgspec.to_builtins(read_record(msgspec.json.encode(parsed)))
    launch = read_launch(msgspec.json.encode(record.launch))  # drops values that few JSON readers can hold
    kept = msgspec.to_builtins(record) | {"launch": msgspec.to_builtins(launch)}
    return _differences("", kept, now)


def _differences(name: str, kept: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(kept, dict) and isinstance(now, dict):
        for key in {**kept, **now}:
            yield from _differences(f"{name}.{key}" if name else key, kept.get(key, _ABSENT), now.get(key, _ABSENT))
    elif isinstance(kept, list) and isinstance(now, list) and len(kept) == len(now):
        for number, values in enumerate(zip(kept, now, strict=True)):
            yield from _differences(f"{name}[{number}]", *values)
    elif kept != now:
        yield name, kept, now


def _value(value: object) -> str:
    return "absent" if value is _ABSENT else shown(value, 60)
