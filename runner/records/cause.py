"""Find the cause of a failure in a program's output, and choose a hint from `hints.yaml`.

A cause is stated by a Python traceback, a C++ exception (`what():`), a crash (`Fatal Python error`), a line that begins
with `error: `, or the error file that `torch.distributed.elastic.multiprocessing.errors.record` writes.
"""

import re
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from runner.core import yaml_reader
from runner.core.text import one_line
from runner.records.folder import end_of
from runner.records.schema import decode

OUT_OF_MEMORY = "out_of_memory"
"""Value of `ended` in `hints.yaml` for a process whose container ran out of memory."""
_LONGEST_LINE = 4_096
_FOLLOWING = 12
"""Maximum lines kept of an exception."""
_LARGEST_ERROR_FILE = 1_000_000
_LAST = 5
_LONGEST = 300
_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_RETHROWN = "Original "  # torch's DataLoader puts this word before a worker's traceback
_IGNORED = "Exception ignored in"
# Exceptions that launchers raise when a worker has failed.
_LAUNCHERS = re.compile(r"[\w.]{0,200}ChildFailedError|[\w.]{0,100}CalledProcessError: .{0,2000}--local[_-]rank")
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]{0,200}(?:: |:?$)")
_REFUSAL = re.compile(r"(?:[\w./-]{1,100}: )?error: \S|[\w./-]{0,200}python[\d.]{0,8}: \S")
# Prefix that torch (`rank`) or torchrun with --tee (`default`) puts before a rank's lines.
_RANK = re.compile(r"\[(?:rank|default)(\d{1,6})\]: ?")
# Messages about a lost connection: the rank that printed one may be a victim of another rank's failure. All repeats are
# bounded, so that the search takes linear time.
VICTIM = re.compile(
    r"connection (closed|reset|refused)|broken pipe|connection was (closed|reset)|peer [^\n]{0,100}(closed|lost)|"
    r"remote process exited|socket timeout|recvvalue failed|\]:\d{1,5}: [^\n]{0,100}(reset|closed)|distnetworkerror|"
    r"watchdog|application timeout caused pair closure",
    re.IGNORECASE,
)


@dataclass
class Statement:
    """Failure of a process as stated in its output.

    `lines` includes the messages of chained exceptions. `place` is the index of the exception's line in the output.
    """

    cause: str | None = None
    lines: list[str] = field(default_factory=list)
    place: int = 0


def read(lines: list[str]) -> Statement:
    """Find the failure in the last lines of a process's output, in linear time."""
    if (statements := _tracebacks(lines)) and statements[-1].cause:
        return statements[-1]
    places = range(len(lines) - 1, -1, -1)
    for mark in ("what():", "Fatal Python error:"):
        if (place := next((place for place in places if mark in lines[place]), None)) is not None:
            block = lines[place : place + _FOLLOWING]
            return Statement(block[0].partition("what():")[2].strip() or block[0].strip(), block, place)
    refusal = next((line for line in reversed(lines) if _REFUSAL.match(line)), None)
    return Statement() if refusal is None else Statement(refusal.strip(), [refusal])


class _Message(msgspec.Struct):
    message: str = ""


class _ErrorFile(msgspec.Struct):
    message: str | _Message


def read_error_file(path: Path | None) -> Statement:
    """Read the failure from torch's error file.

    Returns an empty Statement if the file is not in torch's format, because any program can write to the path.
    torch/distributed/elastic/multiprocessing/errors/error_handler.py defines the format.
    """
    try:
        message = decode(end_of(path, _LARGEST_ERROR_FILE).encode(), _ErrorFile).message
    except ValueError:
        return Statement()
    return of_message(message if isinstance(message, str) else message.message)


def of_message(text: str) -> Statement:
    """Parse an exception in the form `type: message`."""
    lines = [line for line in text[: 500 * _FOLLOWING].splitlines() if line.strip()][:_FOLLOWING]
    return Statement(_sentence(lines), lines) if lines else Statement()


def explained(log: dict[str, Any], tail: list[tuple[int, str]]) -> dict[str, Any]:
    """Add a hint to the summary of a failed log.

    If the log shows exceptions of ranks, the first exception replaces the launcher's message in the notes. `tail` holds
    the last lines of the log with their numbers.
    """
    if log["status"] != "failed":
        return log | {"hint": None}
    ranks: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for number, text in tail:
        mark = _RANK.match(text)
        ranks[f"rank {mark[1]}: " if mark else ""].append((number, text[mark.end() if mark else 0 :]))
    errors = sorted(
        (lines[one.place][0], rank, one.cause, one.lines)
        for rank, lines in ranks.items()
        for one in _tracebacks([text for _, text in lines])
        if one.cause
    )
    texts = [text for _, text in tail]
    if not errors:
        return log | {"hint": find_hint([text for text in texts if text.strip()][-_LAST:], texts, [])}
    line, rank, cause, lines = next((one for one in errors if not VICTIM.search(one[2])), errors[0])
    words = f"{rank}{one_line(cause, _LONGEST)} (line {line})"
    launchers = f"line {log['lines'].get('status')} says: "
    notes = [words, *(note for note in log["notes"] if not note.startswith(launchers))]
    return log | {"hint": find_hint(lines, texts, []), "notes": notes}


def _tracebacks(lines: list[str]) -> list[Statement]:
    """Return one statement for each chain of tracebacks. The statement of a chain that is cut off has no cause."""
    chains: list[list[tuple[int, list[str]]]] = []
    prefix = source = ""
    in_frames = is_chained = False
    for place, line in enumerate(lines):
        before, begins, _ = line.partition(_TRACEBACK)
        if begins and _IGNORED not in "".join(lines[place - 1 : place]):
            if not chains or not (is_chained or before.endswith(_RETHROWN)):
                chains.append([])
            prefix, in_frames, is_chained = before.removesuffix(_RETHROWN), True, False
        elif in_frames and line.startswith(prefix) and _EXCEPTION.match(rest := line[len(prefix) :]):
            in_frames = False
            if not _LAUNCHERS.match(rest):
                chains[-1].append((place, [rest, source] if ":" not in rest else [rest]))
            elif not chains[-1]:
                chains.pop()
        elif in_frames and line.strip(" ^~"):
            source = line.removeprefix(prefix)
        elif chains and chains[-1] and not in_frames:
            is_chained = is_chained or any(link in line for link in _CHAINED)
            if len(chains[-1][-1][1]) < _FOLLOWING and not begins:
                chains[-1][-1][1].append(line.removeprefix(prefix))
    return [_statement(chain) for chain in chains]


def _statement(chain: list[tuple[int, list[str]]]) -> Statement:
    if not chain:
        return Statement()
    place, last = chain[-1]
    cause = _sentence(last)
    return Statement(cause, [cause, *(line for _, block in reversed(chain) for line in block)], place)


def _sentence(block: list[str]) -> str:
    first, further = block[0].strip(), [line.strip() for line in block[1:]]
    if ":" not in first and further and further[0]:
        first = f"{first}: {further[0]}"  # an assertion without a message: show its source line
    if first.endswith(":"):
        first = f"{first} {next(filter(None, further), '')}".strip()
    if "Last error:" in further[:-1]:
        first = f"{first}; last error: {further[further.index('Last error:') + 1]}"
    return first


class Hint(msgspec.Struct, rename={"needs": "with"}):
    """Well-known failure, with the fields that `hints.yaml` describes."""

    name: str
    means: str
    do: str
    source: str
    says: list[str] = []
    anywhere: list[str] = []
    needs: list[str] = []
    ended: list[str] = []


@cache
def hints() -> dict[str, Hint]:
    """Return all hints by name, in the order of `hints.yaml`."""
    data = yaml_reader.read(Path(__file__).with_name("hints.yaml")).values["hints"]
    return {hint.name: hint for hint in msgspec.convert(data, list[Hint])}


def find_hint(lines: list[str], printed: list[str], ended: Collection[str]) -> str | None:
    """Return the name of the first hint that matches a failure; None if no hint does.

    `printed` holds the last lines of the output, and `lines` only those that state the failure. `ended` holds the
    signal that ended the process, or `OUT_OF_MEMORY`.
    """
    fitting = [
        hint.name
        for hint in hints().values()
        if _has(lines, hint.says) or (_has(printed, hint.anywhere) and _has(lines, hint.needs))
    ]
    by_end = [hint.name for hint in hints().values() if {*ended} & {*hint.ended}]
    return next(iter(by_end if OUT_OF_MEMORY in ended else fitting + by_end), None)


def _has(lines: list[str], patterns: list[str]) -> bool:
    pattern = re.compile("|".join(patterns) or "(?!)")
    return any(pattern.search(line[:_LONGEST_LINE]) for line in lines)
