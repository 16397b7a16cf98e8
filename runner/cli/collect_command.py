"""`runner collect`."""

import os
import sys
from json import dumps
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from runner.cli.options import Metric, Results, With, options_of, project_root_or_here
from runner.cli.printing import say, show, show_document
from runner.core.errors import RequestError, RunError, reason_of
from runner.core.text import one_line
from runner.logs.dialect import dialects_with
from runner.logs.metrics import compiled, read_words
from runner.logs.reading import read_log, read_stream
from runner.logs.summary import FIELDS, summary, unread
from runner.records.cause import explained, hints
from runner.records.manifest import NAME
from runner.records.parse import reparse
from runner.records.schema import Record


def collect(
    source: Annotated[
        str,
        typer.Argument(
            metavar="RUN|LOG",
            help="A run's folder, results/<experiment>/<run>; a file of k8s/ or slurm/; or the stdout of any program: "
            "a file, a folder of files, or - for stdin.",
        ),
    ],
    results: Results = Path("results"),
    with_: With = None,
    json: Annotated[bool, typer.Option("--json", help="Print each log as a JSON object on one line.")] = False,
    dialect: Annotated[
        Optional[list[Path]],
        typer.Option(metavar="FILE", help="A YAML file with patterns for the lines of a log; may be repeated."),
    ] = None,
    metric: Metric = None,
) -> None:
    """Make the record of a run, of a job, or of any stdout.

    The raw files in a run's folder are parsed again, or for the first time if its runner was killed. For a manifest of
    k8s/, the pods of its job are read until they end; --with takes options of target kubernetes. The stdout of a
    program that does not use the kit is read by dialects.
    """
    path = Path(source)
    if source != "-" and not os.path.lexists(path):
        raise RequestError(f"{one_line(path)}: there is no such file or folder")
    suffix = "" if path.is_dir() else path.suffix
    is_manifest, is_batch = suffix in (".yaml", ".yml"), suffix == ".sbatch"
    is_log = not (is_manifest or is_batch) and (source == "-" or _is_log(path))
    if (with_ and not is_manifest) or ((json or dialect or metric) and path.exists() and not is_log):
        raise RequestError(f"{path}: --with is for a file of k8s/, --json, --dialect and --metric are for a log")
    records: list[Record] = []
    if is_log:
        _collect_logs(source, dialect or [], metric or [], json=json)
    elif is_batch:
        records = _collect_batch(path, results)
    elif is_manifest:
        records = _collect_jobs(path, results, options_of("kubernetes", with_))
    else:
        _collect_run(path)
    if any(record.status != "completed" for record in records):
        raise typer.Exit(RunError.exit_code)


def _collect_logs(source: str, files: list[Path], words: list[str], *, json: bool) -> None:
    dialects, metrics, path = dialects_with(files), read_words(words), Path(source)
    for file in _below(path) if path.is_dir() else [path]:
        name = str(file.relative_to(path)) if path.is_dir() else source
        try:
            how = dialects, compiled(metrics)
            reading = read_stream(sys.stdin.buffer.read, *how) if source == "-" else read_log(file, *how)
            log, tail = summary(name, reading), reading.tail
        except OSError as error:
            if not path.is_dir():
                raise RequestError(f"{one_line(path)}: cannot be read: {one_line(reason_of(error))}") from None
            log, tail = unread(name, f"not read: {reason_of(error)}"), []
        log = explained(log, tail)
        if json:
            show_document(dumps(log, allow_nan=False) + "\n")
        else:
            _show_log(log)


def _is_log(path: Path) -> bool:
    """Return whether a path holds stdout of programs. It does if it is a file, or a folder with files but no runs."""
    if any((path / name).exists() for name in ("run.json", "raw", "request")):
        return False
    is_of_runs = any(next(path.glob(f"{above}/run.json"), None) for above in ("*", "*/*"))
    return not is_of_runs and bool(_below(path)) if path.is_dir() else os.path.lexists(path)


def _below(folder: Path) -> list[Path]:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(path for path in files if not any(name[0] == "." for name in path.relative_to(folder).parts))


def _show_log(log: dict[str, Any]) -> None:
    show(f"{log['log']}: {log['status'] or 'the log does not say how it ended'}")
    for field in FIELDS[1:]:
        if log[field] is not None:
            place = log["lines"].get(field)
            show(f"    {field}: {_words(log[field])}" + (f", line {_words(place)}" if place else ""))
    for name, metric in log.get("metrics", {}).items():
        show(f"    {name}: {', '.join(f'{key} {value}' for key, value in metric.items()) if metric else 'null'}")
    show(f"    dialects: {', '.join(log['dialects']) or 'none'}")
    for note in log["notes"]:
        show(f"    note: {note}")
    if hint := hints().get(log.get("hint") or ""):
        show(f"    hint: {hint.name}: {hint.means} {hint.do}")


def _words(value: Any) -> str:
    if isinstance(value, list):
        return f"{value[0]} to {value[-1]}" if len(value) > 1 else str(value[0])
    if not isinstance(value, dict):
        return str(value)
    return " ".join(str(word) for name, word in value.items() if word is not None and name != "line")


def _collect_run(path: Path) -> None:
    had_manifest = (path / NAME).exists()
    record = reparse(path)
    if not had_manifest and (path / NAME).exists():
        say(f"note: {path}: its {NAME} is new, and cannot show earlier alterations")
    _show(path, record)


def _collect_batch(path: Path, results: Path) -> list[Record]:
    from runner.execution.by_hand import collect_batch

    records = []
    for folder, record in collect_batch(path, project_root_or_here(), results):
        _show(folder, record)
        records.append(record)
    return records


def _collect_jobs(path: Path, results: Path, words: list[str]) -> list[Record]:
    from runner import targets
    from runner.cli.terminal import Screen
    from runner.execution import signals
    from runner.execution.by_hand import collect_jobs

    target = targets.load("kubernetes", words)
    with signals.taken() as interrupts, Screen() as screen:
        return collect_jobs(path, project_root_or_here(), results, target, screen, interrupts)


def _show(folder: Path, record: Record) -> None:
    show(f"{folder}: {record.status}" + (f": {record.reason}" if record.reason else ""))
