"""How a log ends: words of the end of a run or of a part of it, the last lines, and the dates of a job script.

Many programs say after each epoch what others say once at their end. The same words, whatever their numbers, that were
said before later epochs are of an epoch.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from runner.core.text import one_line
from runner.logs import origin
from runner.logs.lines import Block, text_of
from runner.logs.values import MOST_WRITERS, Fact, Record, Value, Writer

MOST_WORDS = 1_000
"""Different words of the end, of which the oldest ones are forgotten."""
_TEXT = 200
_LONGEST_TRACEBACK = 200
"""Lines of the traceback of an exception that Python ignores."""
_NUMBER = re.compile(r"\d[\d.,:]*")
OF_AN_EPOCH = -1
"""The highest epoch before words that name one."""
_NAMES_AN_EPOCH = re.compile(r"\W{0,3}[Ee]poch\W{0,3}\d(?!\d*: [Ee]arly)")
_OF_ANOTHER = re.compile(
    r"\b(?:until|when|once|after|before|if|unless|[Tt]okenizer|[Vv]ocab\w*|[Pp]hase|[Ss]tage)\b[^.]{0,60}[Tt]raining\b"
)
"""What was done, or is still to be done, is not the training: `kept until training is complete`."""
WINDOW = 65_536
"""Bytes at the beginning and at the end of a log."""
_DATE = re.compile(
    r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) "
    r"(?:(?P<month>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2})|(?P<day2>\d{1,2}) (?P<month2>[A-Z][a-z]{2}) (?P<year2>\d{4})) "
    r"(?P<time>\d\d:\d\d:\d\d)(?: (?P<half>[AP]M))? (?P<zone>[A-Z]{2,5}|[+-]\d\d(?::?\d\d)?)(?: (?P<year>\d{4}))?\b"
)
_CONTAINERS = frozenset(("kubectl", "stern", "compose"))
"""The kinds of prefixes that name a container or a pod."""
_MOST_AFTER = 20
"""Lines after a failure that are not of it, and with which it may still be the end of the run."""
_COUNT = r"(?P<{0}>\d[\d.,]{{0,19}}[kKMGT]?)"
_OF = rf"{_COUNT.format('done')}i?B?/ {{0,9}}{_COUNT.format('total')}"
_BARS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\d{{1,3}}%\|[^|]{{0,300}}\|\s{{0,3}}{_OF}i?B? \[",  # 67%|######   | 336/504 [01:02<00:31, ...
        rf"{_OF} \[[=>. ]{{5,200}}\]",  # 336/504 [======>.....] - ETA: 1:03
        rf"{_OF} {{1,4}}[━╸╺]",  # 336/504 ━━━━━━━━━━━━ 3s 12ms/step
        rf"[━╸╺] {{1,4}}{_OF} ",  # ━━━━━━━━╺━━━━ 336/504 0:01:02 • 0:00:31
        rf"\[ {{0,9}}{_OF} [\d:]{{4,9}} < ",  # [336/504 01:02 < 00:31, 5.4 it/s, Epoch 2/3]
    )
)
_ETA = re.compile(
    r"\b(?:eta|ETA)[:= ]{1,3}(?P<left>(?:\d{1,4} days?, )?\d{1,4}:\d\d(?::\d\d)?\b|(?:\d{1,4}[dhm] ?){0,3}\d{1,6}s\b)"
)
_OF_A_FAILURE = re.compile(
    r"^\s{0,8}$|^[\W_]{4,}|^ {2}|Traceback|Error|ERROR|[Ee]xception|[Ff]ail|FAIL|\b[Kk]ill|[Aa]bort|SIG[A-Z]{3}"
    r"|[Ss]ignal|[Tt]erminat|[Ee]xit|[Ww]arn|WARN|[Cc]ancel|CANCEL|wandb:|NCCL|UCX|[Tt]orch[./]distributed|slurm|srun"
    r"|mpirun|MPI|[Rr]ank\b|[Hh]ost\b|core dumped|leaked|[Rr]oot [Cc]ause|^\[?\d?\]?\s?[#$>]|^\S{1,60}[$#%>] ?"
    r"|Root Cause|^(?:time|exitcode)\b"
)
"""What stands in the lines that launchers, other processes and the shell write after a failure."""
_REAL = re.compile(r"^real\s{1,8}\d{1,6}m[\d.,]{1,9}s")


@dataclass
class Ends:
    """The lines that say how a run, or a part of it, ended."""

    said: dict[str, Value] = field(default_factory=dict)
    """The last line that said failed, trouble, elided or ignored."""
    completed: dict[tuple[Writer, str], Value] = field(default_factory=dict)
    """Of all words that say that a run completed the last line, with the highest epoch before the first one."""
    walls: Fact = field(default_factory=Fact)
    """The durations in such lines."""
    failed_containers: set[str] = field(default_factory=set)
    """Those that did not succeed afterwards."""
    _ignored: dict[Writer, int] = field(default_factory=dict)
    """Where the traceback of an exception begins that Python ignores, until its end."""

    def add(self, record: Record, writer: Writer, highest: float | None, *, begun: bool) -> Value | None:
        """Take in what a line says about the end; return that, if it is that the run, or an epoch of it, completed."""
        if not (record.says or self._ignored):
            return None
        says = record.says if begun else record.says - record.weak
        says = self._without_ignored(says, record, writer)
        if "container" in record.fields:
            container = record.fields["container"]
            if "failed" in says and len(self.failed_containers) < MOST_WRITERS:
                self.failed_containers.add(container)
            if "completed" in says:
                self.failed_containers.discard(container)
            says = says - {"completed"} if self.failed_containers else says
        for word in says - {"completed"}:
            self.said[word] = Value(word, record.line, one_line(record.text, _TEXT))
        is_end = "completed" in says and not _OF_ANOTHER.search(record.text)
        return self._complete(record, writer, highest) if is_end else None

    def failure(self) -> Value | None:
        """Return the last line that says that the run, or a part of it, failed."""
        found = (self.said[word] for word in ("failed", "trouble") if word in self.said)
        return max(found, key=lambda value: value.line, default=None)

    def _complete(self, record: Record, writer: Writer, highest: float | None) -> Value:
        words = (writer, _NUMBER.sub("0", record.text[:_TEXT]))
        known = self.completed.pop(words, None)
        first = highest if known is None or known.epoch is None else known.epoch
        if _NAMES_AN_EPOCH.match(record.text):
            first = OF_AN_EPOCH
        self.completed[words] = value = Value("completed", record.line, weak="completed" in record.weak, epoch=first)
        if len(self.completed) > MOST_WORDS:
            del self.completed[next(iter(self.completed))]
        return value

    def _without_ignored(self, says: set[str], record: Record, writer: Writer) -> set[str]:
        """Leave the trouble of an exception that Python ignores out: its traceback, and the line that names it."""
        if "ignored" in says and len(self._ignored) < MOST_WRITERS:
            self._ignored[writer] = record.line
            return says - {"trouble"}
        if not says and not record.trains:
            return says
        begin = self._ignored.pop(writer, None)
        return says - {"trouble"} if begin and record.line - begin <= _LONGEST_TRACEBACK else says


@dataclass
class Containers:
    """Containers or pods whose output stands one after the other, as `kubectl logs` prints it.

    What stands below another container's lines is then no later than they are.
    """

    _begins: dict[str, int] = field(default_factory=dict)
    _ends: dict[str, int] = field(default_factory=dict)
    """The last line of each that says anything but a failure."""
    _last: str = ""
    _is_mixed: bool = False

    def add(self, record: Record) -> None:
        """Take the next line that says something."""
        name = record.origin.name
        if name is None or _CONTAINERS.isdisjoint(record.origin.kinds):
            self._is_mixed = True
            return
        if name != self._last:
            self._is_mixed |= name in self._begins or len(self._begins) == MOST_WRITERS
            self._begins.setdefault(name, record.line)
            self._last = name
        if record.fields.keys() - {"container"} or "completed" in record.says:
            self._ends[name] = record.line

    def of(self, line: int) -> str | None:
        """Return the container of a line; None if there is only one, or their lines are mixed."""
        if self._is_mixed or len(self._begins) < 2:
            return None
        return max((name for name, begin in self._begins.items() if begin <= line), key=self._begins.__getitem__)

    def went_on(self, name: str, line: int) -> bool:
        """Return whether a container says anything but a failure below a line of it."""
        return self._ends.get(name, 0) > line


class Date(NamedTuple):
    """A date of a job script.

    `zone` are the letters of its time zone, whose offset nobody knows: CST is three. An offset is in `moment` instead.
    """

    moment: datetime
    line: int
    zone: str = ""


class Tail:
    """The last bytes of a log."""

    def __init__(self) -> None:
        self._data = b""
        self._line = 1
        """The number of the line after the data."""

    def add(self, block: Block) -> None:
        """Take the next block."""
        data = self._data + block.data if len(block.data) < WINDOW else block.data
        self._data = data[-WINDOW:]
        self._line = block.line + block.data.count(b"\n")

    @property
    def lines(self) -> list[tuple[int, str]]:
        """Return the last lines, each with its number."""
        return list(enumerate(text_of(self._data).split("\n"), self._line - self._data.count(b"\n")))

    @property
    def dates(self) -> list[Date]:
        """Return the dates in the last lines."""
        return dates(text_of(self._data), self._line - self._data.count(b"\n"))

    @property
    def unfinished(self) -> int:
        """Return the number of the last line if it shows work that was not done: 336/504, or an ETA; 0 if not."""
        line, text = next(self._states(), (0, ""))
        bars = [found for bar in _BARS for found in bar.finditer(text)]
        left = _ETA.search(text)
        is_left = left is not None and any(digit in left["left"] for digit in "123456789")
        return line if is_left or (bars and bars[-1]["done"] != bars[-1]["total"]) else 0

    def goes_on_after(self, line: int) -> bool:
        """Return whether more follows on a failure than what its own lines, launchers and the shell say."""
        if line < self._line - self._data.count(b"\n"):
            return True
        after = 0
        for number, text in self._states():
            if number <= line or after > _MOST_AFTER:
                break
            if _REAL.match(text):
                return True
            words = origin.split(text)[1]
            indent = "  " if text[: -len(words)].endswith("  ") else ""
            after += not (_OF_A_FAILURE.search(indent + words) or any(bar.search(text) for bar in _BARS))
        return after > _MOST_AFTER

    def _states(self) -> Iterator[tuple[int, str]]:
        """Yield what was written last on each line, from the last line on; blank ones are left out."""
        number = self._line
        for line in reversed(self._data.split(b"\n")):
            if text := text_of(next((state for state in reversed(line.split(b"\r")) if state.strip()), b"")):
                yield number, text[:1_000]
            number -= 1


def dates(text: str, line: int) -> list[Date]:
    """Return the dates in some lines, of which the first has this number."""
    found = []
    for match in _DATE.finditer(text):
        year, month, day = (match[name] or match[f"{name}2"] for name in ("year", "month", "day"))
        letters = match["zone"] if match["zone"].isalpha() else ""
        offset = "+0000" if letters else match["zone"].replace(":", "").ljust(5, "0")
        try:
            moment = datetime.strptime(f"{year} {month} {day} {match['time']} {offset}", "%Y %b %d %H:%M:%S %z")
        except ValueError:
            continue
        if match["half"]:
            moment = moment.replace(hour=moment.hour % 12 + (12 if match["half"] == "PM" else 0))
        found.append(Date(moment, line + text.count("\n", 0, match.start()), letters))
    return found
