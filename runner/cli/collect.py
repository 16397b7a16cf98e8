"""`runner collect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from runner.cli.lines import show, show_document
from runner.cli.options import Results, With, project_root
from runner.core.errors import RequestError, RunError


def collect(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|LOG",
            help="A run's folder, results/<experiment>/<run>; a file of k8s/; or the stdout of another program: "
            "a file, a folder of files, or - for stdin.",
        ),
    ],
    results: Results = Path("results"),
    with_: With = None,
    json: Annotated[bool, typer.Option("--json", help="Print each log as one JSON object in one line.")] = False,
    dialect: Annotated[
        Optional[list[Path]],
        typer.Option(metavar="FILE", help="A YAML file that says how the lines of a log are read; may be repeated."),
    ] = None,
) -> None:
    """Make the record of a run, or of a job applied by hand; or read the stdout of any training.

    From a folder its raw files are parsed again; for a run whose runner was killed, it is the first record. From a
    manifest the pods of its job are read in the cluster, to their end if they still run; it takes the options of
    target kubernetes. The stdout of a program that knows nothing of the kit is read by dialects.
    """
    manifest = path.suffix in (".yaml", ".yml") and not path.is_dir()
    if with_ and not manifest:
        msg = f"--with {with_[0]}: is for a file of k8s/; a run's folder and a log take no options"
        raise RequestError(msg)
    if not manifest and _is_log(path):
        _collect_logs(path, dialect or [], json=json)
        return
    if (json or dialect) and (manifest or path.exists()):
        msg = f"{path}: --json and --dialect are for the stdout of another program, not for a run or a manifest"
        raise RequestError(msg)
    if manifest:
        _collect_jobs(path, results, with_ or [])
        return
    from runner.records.finalize import reparse

    record = reparse(path)
    show(f"{path}: {record.status}" + (f": {record.reason}" if record.reason else ""))


def _is_log(path: Path) -> bool:
    from runner.records.foreign.logs import is_log

    return str(path) == "-" or is_log(path)


def _collect_logs(path: Path, dialects: list[Path], *, json: bool) -> None:
    import sys

    from runner.records.foreign import logs

    known = logs.dialects_with(dialects)
    found = [logs.of_stream(sys.stdin.buffer, known)] if str(path) == "-" else logs.of_path(path, known)
    for log in found:
        if json:
            show_document(_json(log) + "\n")
        else:
            _show(log)


def _json(log: dict[str, Any]) -> str:
    import json

    return json.dumps(log, allow_nan=False)


def _show(log: dict[str, Any]) -> None:
    """Print what a log says for a person, with the lines that it stands in."""
    from runner.records.foreign.summary import FIELDS

    show(f"{log['log']}: {log['status'] or 'the log does not say how it ended'}")
    for field in FIELDS[1:]:
        if log[field] is not None:
            show(f"    {field}: {_words(log[field])}{_place(log['lines'].get(field))}")
    if log["dialects"]:
        show(f"    dialects: {', '.join(log['dialects'])}")
    for note in log["notes"]:
        show(f"    note: {note}")


def _words(value: Any) -> str:
    if isinstance(value, list):
        return str(value[0]) if len(value) == 1 else f"{len(value)} from {value[0]} to {value[-1]}"
    if not isinstance(value, dict):
        return str(value)
    words = [value.get("metric"), value["value"], value.get("unit"), value.get("scope") and f"({value['scope']})"]
    return " ".join(str(word) for word in words if word is not None)


def _place(line: Any) -> str:
    if isinstance(line, list):
        return f", lines {line[0]} to {line[-1]}" if len(line) > 1 else f", line {line[0]}"
    return f", line {line}" if line else ""


def _collect_jobs(path: Path, results: Path, words: list[str]) -> None:
    from runner import targets
    from runner.cli.terminal import Screen
    from runner.execution import signals
    from runner.execution.attach import attach

    target = targets.load("kubernetes", words)
    with signals.taken() as interrupts, Screen() as screen:
        found = attach(path, project_root(), results, target, screen, interrupts)
    if any(record.status != "completed" for record in found):
        raise typer.Exit(RunError.exit_code)
