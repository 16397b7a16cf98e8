"""Why a program failed, by what it printed, and what helps against failures that are well known (`hints.yaml`).

A Python program prints a traceback, whose last line is the cause; torch puts `[rank0]: ` before each of its lines, and
torchrun may put more there. An uncaught C++ exception prints `terminate called ...` and `what():`, a crash
`Fatal Python error` (faulthandler), and a refusal a line that begins with `error: `. A program whose main function has
the decorator `torch.distributed.elastic.multiprocessing.errors.record` leaves a JSON file.
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
"""End of a process whose container ran out of memory."""
_LONGEST_LINE = 4_096
_FOLLOWING = 12
"""Lines of an exception: its message may have several, and C++ adds frames."""
_LARGEST_ERROR_FILE = 1_000_000
_LAST = 5
_LONGEST = 300
_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_RETHROWN = "Original "  # what torch's DataLoader puts before the traceback of its worker
_IGNORED = "Exception ignored in"
# Exceptions of launchers, which only say that a worker failed.
_LAUNCHERS = re.compile(r"[\w.]{0,200}ChildFailedError|[\w.]{0,100}CalledProcessError: .{0,2000}--local[_-]rank")
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]{0,200}(?:: |:?$)")
_REFUSAL = re.compile(r"(?:[\w./-]{1,100}: )?error: \S|[\w./-]{0,200}python[\d.]{0,8}: \S")
# How torch, and torchrun where it tees, begin the lines of a rank.
_RANK = re.compile(r"\[(?:rank|default)(\d{1,6})\]: ?")
# Lines about a lost rank: whoever printed them may be only a victim. Linear in the length of a line: nothing unbounded
# stands before a part that may fail.
VICTIM = re.compile(
    r"connection (closed|reset|refused)|broken pipe|connection was (closed|reset)|peer [^\n]{0,100}(closed|lost)|"
    r"remote process exited|socket timeout|recvvalue failed|\]:\d{1,5}: [^\n]{0,100}(reset|closed)|distnetworkerror|"
    r"watchdog|application timeout caused pair closure",
    re.IGNORECASE,
)


@dataclass
class Statement:
    """The failure of a process: in one line, in all its lines with those of earlier exceptions, and their place."""

    cause: str | None = None
    lines: list[str] = field(default_factory=list)
    place: int = 0


def read(lines: list[str]) -> Statement:
    """Find the failure in the last lines of a process, in linear time."""
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
    """Read what torch's ErrorHandler wrote (torch/distributed/elastic/multiprocessing/errors/error_handler.py).

    Return an empty statement for any other file: the program may have written it.
    """
    try:
        message = decode(end_of(path, _LARGEST_ERROR_FILE).encode(), _ErrorFile).message
    except ValueError:
        return Statement()
    return of_message(message if isinstance(message, str) else message.message)


def of_message(text: str) -> Statement:
    """Read an exception in the form `type: message`."""
    lines = [line for line in text[: 500 * _FOLLOWING].splitlines() if line.strip()][:_FOLLOWING]
    return Statement(_sentence(lines), lines) if lines else Statement()


def explained(log: dict[str, Any], tail: list[tuple[int, str]]) -> dict[str, Any]:
    """Add the hint to the facts of a failed log, and the first rank's exception in place of the launcher's words."""
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
    """Return a statement for each traceback, with those it was chained to; without a cause if it is cut off."""
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
    """Return an exception in one line, with the first line of its message and NCCL's last error."""
    first, further = block[0].strip(), [line.strip() for line in block[1:]]
    if ":" not in first and further and further[0]:
        first = f"{first}: {further[0]}"  # an assertion without a message: its source
    if first.endswith(":"):
        first = f"{first} {next(filter(None, further), '')}".strip()
    if "Last error:" in further[:-1]:
        first = f"{first}; last error: {further[further.index('Last error:') + 1]}"
    return first


class Hint(msgspec.Struct, rename={"needs": "with"}):
    """One well-known failure; `hints.yaml` says what each field is."""

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
    """Return all hints by name, in the order in which they are tried."""
    data = yaml_reader.read(Path(__file__).with_name("hints.yaml")).values["hints"]
    return {hint.name: hint for hint in msgspec.convert(data, list[Hint])}


def find_hint(lines: list[str], printed: list[str], ended: Collection[str]) -> str | None:
    """Return the first hint that fits the lines of a failure, all last lines, or how the process ended."""
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
