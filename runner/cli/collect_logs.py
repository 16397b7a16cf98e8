"""The part of `runner collect` for the stdout of programs that know nothing of the kit."""

import sys
from collections.abc import Iterable
from json import dumps
from pathlib import Path
from typing import Any

from runner.cli.lines import show, show_document
from runner.core.errors import RequestError
from runner.logs.dialect import Dialect
from runner.logs.explanation import Explanation


def is_log(source: str) -> bool:
    """Return whether it is other people's stdout: a file or a folder of files, or stdin."""
    from runner.logs import sources

    return source == "-" or sources.is_log(Path(source))


def collect_logs(source: str, dialects: list[Path], *, json: bool, explain: bool) -> None:
    """Print what each log says, as a JSON object or for a person, who may be shown which lines say it."""
    from runner.logs import sources

    if explain and (json or Path(source).is_dir()):
        raise RequestError(f"{source}: --explain is for one log and for a person: leave --json out, and name one file")
    explanation = Explanation() if explain else None
    for log in _logs(source, sources.dialects_with(dialects), explanation):
        if json:
            show_document(dumps(log, allow_nan=False) + "\n")
        else:
            _show(log)
    for line in explanation.lines(log["dialects"]) if explanation else ():
        show(f"    {line}")


def _logs(source: str, known: tuple[Dialect, ...], explanation: Explanation | None) -> Iterable[dict[str, Any]]:
    from runner.logs import sources

    if source == "-":
        return [sources.of_stream(sys.stdin.buffer.read, known, "-", explanation)]
    return sources.of_path(Path(source), known, explanation)


def _show(log: dict[str, Any]) -> None:
    """Print what a log says for a person, with the lines that it stands in."""
    from runner.logs.summary import FIELDS

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
