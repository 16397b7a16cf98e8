"""What lines in no known dialect add up to: only what is said again and again with other numbers is believed.

A configuration, a table of other people's results and a sentence have names and numbers too, but not twice in the same
words with numbers that change and an epoch that does not go back. What is said once counts only if its line names the
data or the place in the training.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any

from runner.logs import figures, origin
from runner.logs.dialect import GENERAL as NAME
from runner.logs.facts import Facts
from runner.logs.fields import MAY_DIVERGE, METRICS
from runner.logs.figures import EVAL, PLACES, TRAIN, Figure, Line
from runner.logs.lines import Block, text_of
from runner.logs.origin import Origin
from runner.logs.scan import ABOVE, Candidate
from runner.logs.values import MOST_WRITERS, Record, Writer

MOST_KINDS = 1_000
_ABOVE = 8
"""Lines above a loss without a word for its data in which that word is looked for."""
_MOST_COLUMNS = 30
_BETWEEN_CELLS = (
    re.compile(r"\s*[|│┃┆]\s*"),
    re.compile(r"\t\s*"),
    re.compile(r"\s*,\s*"),
    re.compile(r"\s{2,}"),
    re.compile(r"\s+"),
)
_CELL = re.compile(r"[-+]?(?:\d{1,18}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][-+]?\d{1,4})?(%?)")
_HEAD_OF_BEST = re.compile(r"\s{0,20}best (?:model|epoch|step|results?)\b.{0,60}:\s{0,20}$", re.IGNORECASE)
"""Above two lines of what the best was: `Best model at step 15000:`."""
_HEAD_OF_EPOCH = re.compile(r"\bepoch:\s{0,20}$", re.IGNORECASE)
"""Above the figures of an epoch: `this epoch:`."""
_MOST_OTHERS = 3
"""Lines between two rows of a table that are none, for example the line below the heads."""
_OF_EVALUATIONS = ("accuracy", "f1", "auc", "perplexity", "bleu")
"""What a column is of though its head does not name the data, in a table that has such data."""
_ROW_UNITS = {"accuracy": "share", "f1": "share", "auc": "share", "perplexity": "perplexity"}
Explain = Callable[[int, str, str, str, dict[str, Any]], None]
"""Takes the line and the text that a pattern of a dialect, at its place, has read values from."""
_Key = tuple[tuple[str, str], ...]


@dataclass
class _Held:
    """The last line in some words, and whether such lines are believed."""

    record: Record
    is_believed: bool = False


class General:
    """Reads lines that no dialect reads, until a dialect reads a line of the training."""

    def __init__(self, explain: Explain, *, is_on: bool) -> None:
        self.is_on = is_on
        self.facts = Facts()
        """What dialects have read, and what is believed of the other lines."""
        self.notes: list[str] = []
        self._explain = explain
        self._held: dict[_Key, _Held] = {}
        self._places: dict[tuple[str, Writer], float] = {}
        """The epoch, or the step, that each writer named last."""
        self._restart = 0
        self._is_placed = False
        """Whether the loss of the training stands beside its epoch or step."""
        self._walls: list[Record] = []
        self._table: Table | None = None
        self._epoch: Any = None
        """The epoch that was named last, also by a line that is not believed."""
        self._evaluating: float | None = None
        """Where an evaluation was whose lines are in the words of the training."""
        self._trained = 0.0
        """Where the training was in its epoch, or in all; what goes on from there is training."""
        self._evaluations = 0
        self._evaluated: dict[str, int] = {}
        """How many evaluations there were, at the last one of each metric."""
        self._is_counted = False
        """Whether an epoch is said to be one of how many."""

    def add_known(self, record: Record) -> None:
        """Take in what a dialect has read; nothing more is read if that is the training."""
        if record.trains or "run_loss" in record.fields:
            self.stop()
        elif self.is_on:
            self.facts.add(record.duplicate())

    def stop(self) -> None:
        """Read no more."""
        self.is_on = False
        self.facts = Facts()

    def read(self, candidate: Candidate, who: Origin, text: str) -> None:
        """Read a line that no dialect knows."""
        if header := Table.of_header(text):
            self._table = header
            self.read_rows(candidate.block, candidate.end + 1, candidate.line + 1)
            return
        record = Record(candidate.line, text, who, NAME, "stated", lines=candidate.lines)
        if wall := figures.wall_of(text):
            record.fields["wall"], record.units["wall"] = wall[0], "s"
            record.weak.add("wall")
            grows = not self._walls or wall[0] >= self._walls[-1].fields["wall"]
            self._walls = [*self._walls[-1:], record] if grows else [record, record, record]
        elif rate := figures.rate_of(text):
            record.fields["throughput"], record.units["throughput"] = rate
            self._add(record)
        elif (line := figures.parse(text)) and not any(map(_HEAD_OF_BEST.match, candidate.above.splitlines()[-2:])):
            self._read_figures(record, line, candidate.above)
        if record.fields:
            self._explain(candidate.line, text, NAME, "", record.fields)

    def _read_figures(self, record: Record, line: Line, above: str) -> None:
        found = dict(line.figures)
        if "train_loss" in found and found["train_loss"].of is None:
            numbers = {
                name: float(record.text[slice(*found[name][1:3])].replace(",", "")) for name in found if name in PLACES
            }
            if self._evaluates(numbers, above):
                del found["train_loss"]
        found |= _of_data_above(line, above, self._is_placed) if line.bare else {}
        self._is_placed |= "train_loss" in found and not found.keys().isdisjoint(("epoch", "step", "done"))
        if "epochs" in found and "epoch" not in found:
            found = {"epochs": found["epochs"]} if found.keys() == {"epochs"} else found
        for name, figure in found.items():
            value = float(record.text[figure.start : figure.end].replace(",", ""))
            if name in PLACES or name in ("correct", "of"):
                value = int(value)
            elif not isfinite(value) and name not in MAY_DIVERGE:
                continue
            record.fields[name] = value
            if figure.unit:
                record.units[name] = figure.unit
        self._epoch = record.fields.get("epoch", self._epoch)
        record.weak = set(record.fields)
        if record.fields.keys() - {"step", "steps", "done", "total", "rank"}:
            self._take(record, tuple((name, figure.label) for name, figure in sorted(found.items())))

    def _evaluates(self, places: dict[str, float], above: str) -> bool:
        """Return whether a loss, of which its line does not say the data, stands below the heading of an evaluation."""
        of, place = _section_above(above), places.get("done", places.get("step", 0))
        evaluates = of == EVAL and places.get("epoch", self._epoch) == self._epoch and not 0 < self._trained < place
        evaluates |= of == "" and self._evaluating is not None and 0 < self._evaluating < place  # it goes on
        self._evaluating = place if evaluates else None
        self._trained = self._trained if evaluates else place
        return evaluates

    def read_rows(self, block: Block, start: int = 0, line: int = 0) -> None:
        """Read the lines of a block as rows, as far as a table goes."""
        line = line or block.line
        while self._table and self.is_on and start < len(block.data):
            end = block.data.find(b"\n", start) % (len(block.data) + 1)
            self._read_row(self._table, line, text_of(block.data[start:end][: figures.LONGEST]))
            start, line = end + 1, line + 1

    def _read_row(self, table: "Table", line: int, text: str) -> None:
        who, text = origin.split(text)
        if fields := table.fields(text):
            units = {name: unit for name, unit in _ROW_UNITS.items() if name in fields}
            self._explain(line, text, NAME, "", fields)
            record = Record(line, text, who, NAME, "stated", fields, units, weak=set(fields))
            self._take(record, (("table", " ".join(table.names)),))
        else:
            table.others += 1
            self._table = table if table.others <= _MOST_OTHERS else None

    def result(self) -> Facts | None:
        """Return the facts, if something was believed."""
        for held in sorted(self._held.values(), key=lambda held: "train_loss" not in held.record.fields):
            record, known = held.record, self.facts.losses.chosen()
            if not held.is_believed and _is_plain(record, trained=known is not None):
                if known and known.line > record.line:
                    record.fields.pop("train_loss", None)  # the last one counts
                self._add(record)
        if self._walls and len(self._walls) < 3:
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
        # Of metrics that were no longer evaluated when others were, nothing counts.
        least = self._evaluations - 2 * len(self._evaluated)
        stale = {metric for metric, last in self._evaluated.items() if last < least}
        facts.evaluations = {key: found for key, found in facts.evaluations.items() if key[1] not in stale}
        return facts

    def _take(self, record: Record, key: _Key) -> None:
        """Hold a line until another one in the same words has other numbers."""
        held = self._held.get(key)
        if held is None:
            if len(self._held) < MOST_KINDS:
                record.epoch = self.facts.epoch if "epoch" not in record.fields else None
                names = record.fields.keys()
                # How many epochs were asked for, and an evaluation that is named so, are believed at once.
                is_believed = names == {"epochs"} or bool(names - PLACES - {"train_loss"})
                self._held[key] = _Held(record, is_believed)
                if is_believed:
                    self._add(record)
            return
        before, held.record = held.record, record
        if not held.is_believed and _follows(before, record):
            held.is_believed = True
            self.facts.add(before)
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
                self.facts.times = []
            if (place, writer) in self._places or len(self._places) < MOST_WRITERS:
                self._places[place, writer] = fields[place]
        self._is_counted |= {"epoch", "epochs"} <= fields.keys()
        if metrics := fields.keys() & set(METRICS):
            self._evaluations += 1
            self._evaluated |= dict.fromkeys(metrics, self._evaluations)
        self.facts.add(record)


def _of_data_above(line: Line, above: str, is_placed: bool) -> dict[str, Figure]:
    """Return the figures of which the lines above say whether they are of the training or of an evaluation.

    Where nothing is above, a loss is of the training, but `Average loss: 0.16, Accuracy: 1095/1134` is not, nor is any
    once the loss of the training stands beside its epoch or step.
    """
    of = _section_above(above)
    if of == EVAL and not line.figures.keys() & {"epoch", "step", "done"}:  # not at a place of the training
        return {"val_loss" if name == "loss" else name: figure for name, figure in line.bare.items()}
    trains = of == TRAIN or (of == "" and not is_placed and "correct" not in line.bare)
    if trains and "loss" in line.bare and not line.figures.keys() & {"val_loss", "train_loss"}:
        return {"train_loss": line.bare["loss"]}
    return {}


def _section_above(above: str) -> str | None:
    """Return what the nearest heading or epoch above a line says of it: train, eval, or None where that is not sure.

    The text is empty where none is near.
    """
    is_near = True
    for line in reversed(above[-ABOVE:].splitlines()[-_ABOVE:]):
        text = origin.split(line)[1]
        has_digits = re.search(r"\d", text) is not None
        section = next(reversed(figures.sections(text)), None)
        if section == EVAL:
            return EVAL if is_near and not has_digits else None
        if section == TRAIN or _HEAD_OF_EPOCH.search(text):
            return TRAIN
        found = figures.parse(text)
        if found and "epoch" in found.figures:
            return TRAIN
        is_near &= has_digits or not text.strip()
    return ""


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


def _is_plain(record: Record, *, trained: bool) -> bool:
    """Return whether a line that no other one follows is one of the training for sure."""
    loss = record.fields.get("train_loss")
    names_it = figures.sections(record.text)[:1] == [TRAIN]
    if loss is None:
        return trained and names_it and record.fields.keys() == {"epoch"}
    return not float(loss).is_integer() and (names_it or not record.fields.keys().isdisjoint(("epoch", "step")))


@dataclass
class Table:
    """A table of a training: a line of heads, and below it lines of numbers.

    epoch  train_loss  valid_loss  accuracy        | Epoch | Train Loss | Val Acc |        step,loss
    0      0.412       0.391       0.871           | 1     | 0.412      | 0.871   |        10,2.31
    """

    names: tuple[str, ...]
    """The field of each column; empty where it is not known."""
    between: re.Pattern[str]
    """What stands between two cells."""
    others: int = 0
    """Lines since the last row that are none."""

    @staticmethod
    def of_header(text: str) -> "Table | None":
        """Return the table that a line of heads begins; None if it is none."""
        if re.search(r"(?<![A-Za-z@_-])\d", text) or "oss" not in text.lower() or len(text) > figures.LONGEST:
            return None
        for between in _BETWEEN_CELLS:
            heads = _cells(text, between)
            if any(head.lower().startswith("trial") for head in heads):
                return None  # each row is another training
            if 1 < len(heads) <= _MOST_COLUMNS and (names := _names(heads)):
                return Table(names, between)
        return None

    def fields(self, text: str) -> dict[str, Any]:
        """Return what a row says; nothing if the line is no row."""
        cells = _cells(text, self.between)
        if len(cells) != len(self.names):
            return {}
        found: dict[str, Any] = {}
        for name, cell in zip(self.names, cells, strict=True):
            if name in ("epoch", "step"):
                found |= {name: int(cell)} if cell.isdigit() and _CELL.fullmatch(cell) else {}
            elif name and _CELL.fullmatch(cell):
                found[name] = float(cell.rstrip("%"))
        if not found.keys() & {"epoch", "step"} or len(found) < 2:
            return {}
        self.others = 0
        return found


def _cells(text: str, between: re.Pattern[str]) -> list[str]:
    return between.split(text.strip().strip("|│┃┆").strip())


def _names(heads: list[str]) -> tuple[str, ...]:
    """Return the fields of some heads; nothing if they are not those of a training."""
    kinds = [figures.kind_of_name(head) for head in heads]
    has_data = any(of == EVAL for _, of in kinds)
    names = []
    for kind, of in kinds:
        if kind == "loss":
            names.append("val_loss" if of == EVAL else "train_loss")
        elif kind in ("epoch", "step"):
            names.append(kind)
        else:
            names.append(kind if of == EVAL or (of is None and has_data and kind in _OF_EVALUATIONS) else "")
    known = [name for name in names if name]
    is_whole = len(known) == len(set(known)) and known[:1] in (["epoch"], ["step"]) and len(known) > 1
    return tuple(names) if is_whole else ()
