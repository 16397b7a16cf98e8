"""What a log says about the end of a run, or of a part of it: of one epoch, one container, one process.

Many programs say after each epoch what others say once at their end. The same words, whatever their numbers, that were
said before later epochs are of an epoch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from runner.core.text import one_line
from runner.logs.record import Record
from runner.logs.said import MOST_WRITERS, Fact, Value, Writer

MOST_WORDS = 1_000
"""Different words of the end, of which the oldest ones are forgotten."""
_TEXT = 200
_LONGEST_TRACEBACK = 200
"""Lines of the traceback of an exception that Python ignores."""
_NUMBER = re.compile(r"\d[\d.,:]*")
OF_AN_EPOCH = -1
"""The highest epoch before words that name one."""
_NAMES_AN_EPOCH = re.compile(r"\W{0,3}[Ee]poch\W{0,3}\d")


@dataclass
class Ends:
    """The lines that say how a run, or a part of it, ended."""

    said: dict[str, Value] = field(default_factory=dict)
    """The last line that said failed, trouble, elided or ignored."""
    completed: dict[tuple[Writer, str], Value] = field(default_factory=dict)
    """Of all words that say that a run completed the last line, with the highest epoch before the first one."""
    walls: Fact = field(default_factory=Fact)
    """The durations in such lines."""
    _failed: set[str] = field(default_factory=set)
    """The containers that failed, and did not succeed afterwards."""
    _ignored: dict[Writer, int] = field(default_factory=dict)
    """Where the traceback of an exception begins that Python ignores, until its end."""

    def add(self, record: Record, writer: Writer, highest: float | None, *, begun: bool) -> Value | None:
        """Take in what a line says about the end; return that, if it is that the run, or an epoch of it, completed."""
        if not (record.says or self._ignored):
            return None
        says = record.says if begun else record.says - record.weak
        says = self._without_ignored(says, record, writer)
        if "container" in record.fields:
            says = self._without_half(says, record.fields["container"])
        for word in says - {"completed"}:
            self.said[word] = Value(word, record.line, one_line(record.text, _TEXT))
        return self._complete(record, writer, highest) if "completed" in says else None

    def failure(self) -> Value | None:
        """Return the last line that says that the run, or a part of it, failed."""
        found = (self.said[word] for word in ("failed", "trouble") if word in self.said)
        return max(found, key=lambda value: value.line, default=None)

    @property
    def has_failed_container(self) -> bool:
        """Return whether a container failed, and did not succeed afterwards."""
        return bool(self._failed)

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

    def _without_half(self, says: set[str], container: str) -> set[str]:
        """Leave the success of a container out while another one is known to have failed."""
        if "failed" in says and len(self._failed) < MOST_WRITERS:
            self._failed.add(container)
        if "completed" in says:
            self._failed.discard(container)
        return says - {"completed"} if self._failed else says
