"""What lines in no known dialect add up to: only what is said again and again with other numbers is believed.

A configuration, a table of other people's results and a sentence have names and numbers too, but not twice in the same
words with numbers that change and an epoch that does not go back. What is said once counts only if its line names the
data or the place in the training.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from runner.logs import general, origin
from runner.logs.dialect import GENERAL as NAME
from runner.logs.explanation import Explanation
from runner.logs.facts import Facts
from runner.logs.fields import METRICS
from runner.logs.general import EVAL, PLACES, TRAIN, Figure, Line
from runner.logs.lines import Block, text_of
from runner.logs.origin import Origin
from runner.logs.record import Record
from runner.logs.said import MOST_WRITERS, Writer
from runner.logs.scan import Candidate
from runner.logs.table import Table

MOST_KINDS = 1_000
_ABOVE = 8
"""Lines above a loss without a word for its data in which that word is looked for."""
_Key = tuple[tuple[str, str], ...]


@dataclass
class _Held:
    """Lines in the same words, until they are believed."""

    record: Record
    count: int = 1
    is_believed: bool = False


@dataclass
class General:
    """Reads lines that no dialect reads, until a dialect reads a line of the training."""

    facts: Facts = field(default_factory=Facts)
    """What dialects have read, and what is believed of the other lines."""
    is_on: bool = True
    notes: list[str] = field(default_factory=list)
    explanation: Explanation | None = None
    _held: dict[_Key, _Held] = field(default_factory=dict)
    _places: dict[tuple[str, Writer], float] = field(default_factory=dict)
    """The epoch, or the step, that each writer named last."""
    _restart: int = 0
    _walls: list[Record] = field(default_factory=list)
    _table: Table | None = None
    _evaluations: int = 0
    _evaluated: dict[str, int] = field(default_factory=dict)
    """How many evaluations there were, at the last one of each metric."""
    _is_counted: bool = False
    """Whether an epoch is said to be one of how many."""

    def add_known(self, record: Record) -> None:
        """Take in what a dialect has read; nothing more is read if that is the training."""
        if record.trains or "run_loss" in record.fields:
            self.stop()
        elif self.is_on:
            fields, units, scopes = dict(record.fields), dict(record.units), dict(record.scopes)
            copy = replace(record, fields=fields, units=units, scopes=scopes)
            self.facts.add(replace(copy, weak=set(record.weak), says=set(record.says)))

    def stop(self) -> None:
        """Read no more."""
        self.is_on = False
        self.facts = Facts()

    def read(self, candidate: Candidate, who: Origin, text: str) -> None:
        """Read a line that no dialect knows."""
        fields = self._read(candidate, who, text)
        if fields and self.explanation:
            self.explanation.add(candidate.line, text, NAME, "", fields)

    def _read(self, candidate: Candidate, who: Origin, text: str) -> dict[str, Any]:
        """Return what a line says, believed or not."""
        if header := Table.of_header(text):
            self._table = header
            if candidate.block:
                self.read_rows(candidate.block, candidate.end + 1, candidate.line + 1)
            return {}
        record = Record(candidate.line, text, who, NAME, "stated", lines=candidate.lines)
        if wall := general.wall_of(text):
            record.fields["wall"], record.units["wall"] = wall[0], "s"
            record.weak.add("wall")
            self._walls = [*self._walls[-1:], record] if self._grows(wall[0]) else [record, record, record]
            return record.fields
        if rate := general.rate_of(text):
            record.fields["throughput"], record.units["throughput"] = rate
            self._add(record)
            return record.fields
        line = general.parse(text)
        if line is None:
            return {}
        figures = dict(line.figures)
        figures |= _told_above(line, candidate.above) if line.bare else {}
        if "epochs" in figures and "epoch" not in figures:
            figures = {"epochs": figures["epochs"]} if figures.keys() == {"epochs"} else figures
        _fill(record, figures)
        if record.fields.keys() - {"step", "steps", "done", "total", "rank"}:
            self._take(record, tuple((name, figure.label) for name, figure in sorted(figures.items())))
        return record.fields

    def read_rows(self, block: Block, start: int = 0, line: int = 0) -> None:
        """Read the lines of a block as rows, as far as a table goes."""
        line = line or block.line
        while self._table and self.is_on and start < len(block.data):
            end = block.data.find(b"\n", start) % (len(block.data) + 1)
            self._read_row(line, text_of(block.data[start:end][: general.LONGEST]))
            start, line = end + 1, line + 1

    def _read_row(self, line: int, text: str) -> None:
        who, text = origin.split(text)
        table = self._table
        if table is None:
            return
        fields = table.fields(text)
        if fields:
            record = Record(line, text, who, NAME, "stated", fields)
            record.units |= dict.fromkeys(fields.keys() & {"accuracy", "f1", "auc"}, "share")
            record.units |= dict.fromkeys(fields.keys() & {"perplexity"}, "perplexity")
            record.weak = set(fields)
            if self.explanation:
                self.explanation.add(line, text, NAME, "", fields)
            self._take(record, (("table", " ".join(table.names)),))
        elif not table.goes_on():
            self._table = None

    def result(self) -> Facts | None:
        """Return the facts, if something was believed."""
        for held in sorted(self._held.values(), key=lambda held: "train_loss" not in held.record.fields):
            record, known = held.record, self.facts.losses.chosen()
            if not held.is_believed and _is_plain(record, trained=known is not None):
                if known and known.line > record.line:
                    record.fields.pop("train_loss", None)  # the last one counts
                self._add(record)
        if self._walls and len(self._walls) < 3:  # noqa: PLR2004
            self._add(self._walls[-1])
        facts = self.facts
        if not self.is_on or NAME not in facts.dialects:
            return None
        if self._restart:
            self.notes.append(f"a training begins again in line {self._restart}: epochs and the loss are left out")
            facts.losses.by_writer.clear()
        if self._restart or not (facts.losses.by_writer or facts.evaluations or self._is_counted):
            facts.epochs[True].clear()
            facts.highest = facts.lowest = None
        facts.evaluations = {key: one for key, one in facts.evaluations.items() if not self._is_stale(key)}
        return facts

    def _is_stale(self, key: tuple[bool, str, Writer]) -> bool:
        """Return whether a metric was no longer evaluated when others were."""
        last = self._evaluated.get(key[1])
        return last is not None and self._evaluations - last > 2 * len(self._evaluated)

    def _grows(self, wall: float) -> bool:
        return not self._walls or wall >= self._walls[-1].fields["wall"]

    def _take(self, record: Record, key: _Key) -> None:
        """Hold a line until another one in the same words has other numbers."""
        held = self._held.get(key)
        if held is None:
            if len(self._held) < MOST_KINDS:
                record.epoch = self.facts.epoch if "epoch" not in record.fields else None
                self._held[key] = _Held(record, is_believed=_needs_no_other(record))
                if self._held[key].is_believed:
                    self._add(record)
            return
        before, held.count = held.record, held.count + 1
        if not held.is_believed and _follows(before, record):
            held.is_believed = True
            self.facts.add(before)
        held.record = record
        if held.is_believed:
            self._add(record)

    def _add(self, record: Record) -> None:
        fields = record.fields
        writer = record.origin.writer
        place = "epoch" if "epoch" in fields else "step" if "train_loss" in fields and self.facts.epoch is None else ""
        if place in fields:
            last = self._places.get((place, writer), -1)
            if last > 1 and (fields[place] <= 1 if place == "epoch" else fields[place] < last):
                self._restart = record.line
                self.facts.evaluations.clear()
            if (place, writer) in self._places or len(self._places) < MOST_WRITERS:
                self._places[place, writer] = fields[place]
        self._is_counted |= {"epoch", "epochs"} <= fields.keys()
        if metrics := fields.keys() & set(METRICS):
            self._evaluations += 1
            self._evaluated |= dict.fromkeys(metrics, self._evaluations)
        self.facts.add(record)


def _fill(record: Record, figures: dict[str, Figure]) -> None:
    for name, figure in figures.items():
        text = record.text[figure.start : figure.end].replace(",", "")
        value = float(text)
        if name in PLACES or name in ("correct", "of"):
            value = int(value)
        elif value - value != 0 and name != "train_loss":  # nan or infinite
            continue
        record.fields[name] = value
        if figure.unit:
            record.units[name] = figure.unit
    record.weak = set(record.fields)


def _told_above(line: Line, above: str) -> dict[str, Figure]:
    """Return the figures of which the lines above say whether they are of the training or of an evaluation."""
    of = _section_above(above)
    if of == EVAL and not line.is_placed:
        return {"val_loss" if name == "loss" else name: figure for name, figure in line.bare.items()}
    if of != EVAL and "loss" in line.bare and not line.figures.keys() & {"val_loss", "train_loss"}:
        return {"train_loss": line.bare["loss"]} if of == TRAIN else {}
    return {}


def _section_above(above: str) -> str | None:
    """Return what the nearest heading or epoch above a line says of it: train, eval, or None where that is not sure."""
    is_near = True
    for line in reversed(above.splitlines()[-_ABOVE:]):
        text = origin.split(line)[1]
        has_digits = re.search(r"\d", text) is not None
        section = next(reversed(general.sections(text)), None)
        if section == EVAL:
            return EVAL if is_near and not has_digits else None
        if section == TRAIN:
            return TRAIN
        found = general.parse(text)
        if found and "epoch" in found.figures:
            return TRAIN
        is_near &= has_digits or not text.strip()
    return TRAIN


def _follows(before: Record, record: Record) -> bool:
    """Return whether a line goes on where another one in the same words was."""
    old, new = before.fields, record.fields
    if "train_loss" in new and len(new) > 1:
        return True
    if old == new:
        return False
    if new.keys() - PLACES:
        return True
    if new["epoch"] == old["epoch"]:
        return new.get("total") == old.get("total") and 0 < old.get("done", 0) < new.get("done", 0)
    return "epochs" in new or abs(new["epoch"] - old["epoch"]) == 1


def _needs_no_other(record: Record) -> bool:
    """Return whether a line is believed at once: how many epochs were asked for, and an evaluation that is named so."""
    names = record.fields.keys()
    return names == {"epochs"} or bool(names - PLACES - {"train_loss"})


def _is_plain(record: Record, *, trained: bool) -> bool:
    """Return whether a line that no other one follows is one of the training for sure."""
    loss = record.fields.get("train_loss")
    names_it = general.sections(record.text)[:1] == [TRAIN]
    if loss is None:
        return trained and names_it and record.fields.keys() == {"epoch"}
    return not float(loss).is_integer() and (names_it or not record.fields.keys().isdisjoint(("epoch", "step")))
