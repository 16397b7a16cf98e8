"""What a failed log says of its failure: the exception of the first rank, not that of its launcher, and the hint."""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from runner.core.text import one_line
from runner.logs.lines import Tail
from runner.records import cause, hints
from runner.records.failure import VICTIM

_RANK = re.compile(r"\[(?:rank|default)(\d{1,6})\]: ?")
"""How torch, and torchrun where it tees, begin the lines of a rank."""
_LAUNCHERS = re.compile(r"Traceback|ChildFailedError|exitcode")
_WORKERS_ENDED = "failed (exitcode: "
_LAST = 5
_BETWEEN = 3
"""Lines between two exceptions that say that the second followed from the first."""
_LONGEST = 300


class _Exception(NamedTuple):
    line: int
    rank: str
    cause: str
    said: list[str]


def explained(log: dict[str, Any], tail: Tail) -> dict[str, Any]:
    """Add to the facts of a log that failed the hint, and in place of the launcher's words those of the first rank."""
    if log["status"] != "failed":
        return log | {"hint": None}
    found = _exceptions(tail.lines)
    first = next((one for one in found if not VICTIM.search(one.cause)), next(iter(found), None))
    texts = [text for _, text in tail.lines]
    said = first.said if first else [text for text in texts if text.strip()][-_LAST:]
    log = log | {"hint": hints.find(said, texts, [])}
    if first is None:
        return log
    again = [one.line for one in found if one[1:3] == first[1:3]]
    is_restarted = any(_WORKERS_ENDED in text and first.line < number < again[-1] for number, text in tail.lines)
    times = f"; again after {len(again) - 1} restart{'s' * (len(again) > 2)}, line {again[-1]}" if is_restarted else ""
    words = f"{first.rank}{one_line(first.cause, _LONGEST)} (line {first.line}{times})"
    place = f"line {log['lines'].get('status')} says: "
    notes = [note for note in log["notes"] if not (note.startswith(place) and _adds_nothing(note, first.cause, place))]
    return log | {"notes": [words, *notes]}


def _adds_nothing(note: str, cause: str, place: str) -> bool:
    return bool(_LAUNCHERS.search(note)) or note.removeprefix(place) in cause


def _exceptions(lines: list[tuple[int, str]]) -> list[_Exception]:
    """List what each rank raised, in the order of the log; of exceptions that followed from each other the last."""
    ranks: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for number, text in lines:
        found = _RANK.match(text)
        ranks[f"rank {found[1]}: " if found else ""].append((number, text[found.end() if found else 0 :]))
    return sorted(one for rank, said in ranks.items() for block in _blocks(said) for one in _read(rank, block))


def _blocks(said: list[tuple[int, str]]) -> list[list[tuple[int, str]]]:
    """Part what a rank said at its tracebacks; one that followed from another stays with it."""
    blocks: list[list[tuple[int, str]]] = []
    for number, text in said:
        before = [line for _, line in blocks[-1][-_BETWEEN:]] if blocks else []
        is_chained = any(mark in line for line in (*before, text) for mark in cause.CHAINED)
        if cause.TRACEBACK in text and not (blocks and is_chained):
            blocks.append([])
        if blocks:
            blocks[-1].append((number, text))
    return blocks


def _read(rank: str, block: list[tuple[int, str]]) -> Iterator[_Exception]:
    found = cause.read([text for _, text in block])
    if found.cause:
        places = (number for number, text in reversed(block) if text.strip() and found.cause.startswith(text.strip()))
        yield _Exception(next(places, block[0][0]), rank, found.cause, found.lines)
