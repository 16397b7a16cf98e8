"""What the records of a log add up to. Nothing here grows with the log."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from math import isclose
from typing import Any

from runner.core.text import one_line
from runner.logs import mlperf
from runner.logs.endings import OF_AN_EPOCH, Containers, Ends
from runner.logs.fields import ABOVE_ONE, METRICS
from runner.logs.origin import Origin
from runner.logs.values import MOST_WRITERS, Evaluations, Fact, LastValues, Record, Value, Writer

MOST_EPOCHS = 100_000
"""How many epochs are kept; a higher number is none of an epoch, but one of samples."""
_LARGEST_BLOCK = 1_000
"""Epochs of an MLPerf block; more are samples."""
_TEXT = 200
_SCALARS = ("world_size", "nnodes", "backend", "epochs", "speedup")
_PLACES = ("done", "total", "step", "steps")
_BEST = "best_accuracy"
_ALL_PERCENT = 100 + 1e-6
_OPEN_NODES = re.compile(r"--nnode|[\\^`]\s*$")
"""What a command of torchrun has if it does not say how many nodes there are: --nnodes=1:4, or a line that goes on."""
_OF_A_PART = re.compile(
    r"(?:[Pp]arallel|[Ll]ocal|[Rr]ole|[Nn]ode|[Tt]ensor|[Pp]ipeline|[Dd]ata|[Ee]xpert|[Cc]ontext|[Mm]odel"
    r"|[Ss]hard|[Gg]roup,?|\b[TtPpDdEeCcSs][Pp])"
    r"[ _-]{1,2}[Ww]orld[ _]?[Ss]ize"
)
"""A number of processes that is not that of the whole run."""


@dataclass
class Progress:
    """The last line of the training, as far as it says where the training was."""

    line: int
    epoch: float | int | None = None
    done: int | None = None
    total: int | None = None
    step: int | None = None
    steps: int | None = None


@dataclass
class Blocks:
    """The epochs of MLPerf programs that name blocks of several epochs."""

    epochs: dict[float | int, int] = field(default_factory=dict)
    counts_samples: bool = False
    """Whether a block was left out, because its numbers are those of samples."""
    _begun: dict[int, int] = field(default_factory=dict)
    """By the first epoch of each block that has not ended, how many epochs it has."""
    _left: int = MOST_EPOCHS
    """Epochs of ended blocks that are still looked at: a log can begin and end the same block on every line."""

    def add(self, event: mlperf.Event, line: int) -> None:
        """Take in the begin of a block, which shows its first epoch, or its end, which shows that all were done.

        The end names its block; where it names none that has begun, it is the last one that has.
        """
        first, count = (mlperf.number(event.metadata.get(name)) for name in ("first_epoch_num", "epoch_count"))
        begin = -1 if first is None else int(first)
        if event.key == "block_stop":
            begin = begin if begin in self._begun else next(reversed(self._begun), -1)
            size = min(self._begun.pop(begin, 0), self._left)
            self._left -= size
        elif first is not None:
            size = max(int(count or 1), 1)
            if size > _LARGEST_BLOCK or first > MOST_EPOCHS:
                self.counts_samples = True
                return
            if len(self._begun) < MOST_WRITERS:
                self._begun.pop(begin, None)
                self._begun[begin] = size
            size = 1
        else:
            return
        for epoch in range(begin, begin + size):
            if len(self.epochs) < MOST_EPOCHS:
                self.epochs.setdefault(epoch, line)


@dataclass
class Facts:
    """All facts of one log."""

    facts: dict[str, Fact] = field(default_factory=dict)
    losses: LastValues = field(default_factory=LastValues)
    run_losses: LastValues = field(default_factory=LastValues)
    walls: dict[bool, LastValues] = field(default_factory=lambda: {False: LastValues(), True: LastValues()})
    """Durations, by whether they are weak."""
    throughputs: LastValues = field(default_factory=LastValues)
    epochs: dict[bool, dict[float | int, int]] = field(default_factory=lambda: {False: {}, True: {}})
    """The first line of each epoch, by whether they are weak."""
    evaluations: dict[tuple[bool, str, Writer], Evaluations] = field(default_factory=dict)
    stated_best: Value | None = None
    progress: Progress | None = None
    widest: int | None = None
    """The most of an epoch that was seen done, in a completed or an unfinished one."""
    named_after: bool = False
    """Whether training comes before the first line that names an epoch, which may then stand behind its epoch."""
    passed: float | int | None = None
    """The first epoch after which a bar of other data follows."""
    stride: int = 0
    has_steps: bool = False
    """Whether an epoch has several lines of the training, none of which says how far the epoch is."""
    evaluated: int = 0
    """The line of the last evaluation."""
    ends: Ends = field(default_factory=Ends)
    containers: Containers = field(default_factory=Containers)
    highest: float | int | None = None
    lowest: float | int | None = None
    left_out: dict[str, Value] = field(default_factory=dict)
    """The first line with a value that cannot be right, by what is wrong with it."""
    times: list[tuple[int, datetime]] = field(default_factory=list)
    """The first loss line with a time stamp and the last line with one that says something."""
    blocks: Blocks = field(default_factory=Blocks)
    runs: dict[str, list[mlperf.Event]] = field(default_factory=dict)
    run_lines: dict[str, int] = field(default_factory=dict)
    benchmark: str | None = None
    dialects: dict[str, int] = field(default_factory=dict)
    prefixes: dict[str, int] = field(default_factory=dict)
    writers: set[Writer] = field(default_factory=set)
    has_more_writers: bool = False
    epoch: float | int | None = None
    """The epoch that was named last."""
    _trained: dict[Writer, tuple[float | int, int]] = field(default_factory=dict)
    """The last epoch of the training of each writer, and its line."""
    _rises: bool = True
    """Whether all figures stand behind bare numbers, none less than the one before, in lines that name no place."""
    _number: int = -1

    def add(self, record: Record) -> None:
        """Take in what a line said."""
        self.dialects[record.dialect] = self.dialects.get(record.dialect, 0) + record.lines
        for kind in record.origin.kinds:
            self.prefixes[kind] = self.prefixes.get(kind, 0) + record.lines
        fields = record.fields
        writer = record.origin.writer
        if "rank" in fields:
            writer = (fields["rank"], writer[1], writer[2])
        if len(self.writers) < MOST_WRITERS:
            self.writers.add(writer)
        self.has_more_writers |= writer not in self.writers
        self.containers.add(record)
        self._scalars(record)
        if "epoch" in fields:
            self._add_epoch(record, writer)
        if fields.keys() & {"pass_accuracy", "train_loss"}:
            self._take_pass(fields, record)
        self._training(record, writer)
        self._evaluation(record, writer)
        if "throughput" in fields:
            self.throughputs.add(writer, self._value(record, "throughput"))
        begun = self.progress is not None or self.evaluated > 0
        end = self.ends.add(record, writer, self.highest, begun=begun)
        if "wall" in fields:
            self._take_wall(record, writer, end)
        if record.is_cut:
            self._leave_out("a number of it was read only up to its comma or point", record)
        says_more = record.says or record.fields.keys() - {"epoch"}
        if record.origin.time and says_more and self.times and self.times[0][0] < record.line:
            self.times[1:] = [(record.line, record.origin.time)]

    def settle(self) -> None:
        """Take numbers before lines for places, not for ranks, if each stands once and they rise: `[300] loss: 1.9`.

        Beginning with 0 they may be either: nothing is taken then.
        """
        counts = [found.count for found in self.evaluations.values()]
        if not self._rises or len(self.writers) < 2 or self.losses.is_repeated or max(counts, default=1) > 1:
            return
        is_place = min(self.writers)[0] > 0
        self.losses.by_writer = {min(self.writers): self.losses.last()} if is_place and self.losses.by_writer else {}
        merged: dict[tuple[bool, str, Writer], Evaluations] = {}
        for (weak, metric, _), found in self.evaluations.items() if is_place else ():
            key = (weak, metric, min(self.writers))
            merged.setdefault(key, Evaluations(found.last, found.last, found.last, found.stated_best)).add(found.last)
        self.evaluations = merged

    def add_event(self, event: mlperf.Event, line: int, origin: Origin) -> None:
        """Take in an MLPerf event."""
        record = Record(line, event.key, origin, "mlperf")
        self.epoch = None if event.key == "run_start" else self.epoch
        self.benchmark = self.benchmark or event.benchmark
        number = mlperf.number(event.metadata.get("epoch_num"))
        if event.key in ("run_start", "run_stop"):
            found = self.runs.setdefault(event.key, [])
            found += [event] if len(found) < MOST_WRITERS else []
            if event.key == "run_stop" or len(found) == 1:
                self.run_lines[event.key] = line
            if event.key == "run_start":
                self.run_lines["last run_start"] = line
        elif event.key in ("submission_benchmark", "benchmark") and isinstance(event.value, str):
            self.benchmark = event.value
        elif event.key in ("number_of_ranks", "number_of_nodes"):
            name = {"number_of_ranks": "world_size", "number_of_nodes": "nnodes"}[event.key]
            count = mlperf.number(event.value)
            record.fields |= {name: int(count)} if count is not None and count >= 1 else {}
        elif event.key in ("epoch_start", "train_epoch"):
            number = mlperf.number(event.value) if number is None else number
            record.fields |= {"epoch": int(number)} if number is not None and float(number).is_integer() else {}
        elif event.key in ("block_start", "block_stop"):
            self.blocks.add(event, line)
        elif event.key == mlperf.EVALUATION:
            value, scope = mlperf.evaluation(event.value)
            record.epoch = number
            record.fields |= {mlperf.EVALUATION: value} if value is not None else {}
            record.scopes |= {mlperf.EVALUATION: scope} if scope else {}
        record.weak = set(record.fields)
        self.add(record)

    def fact(self, name: str) -> Value | None:
        """Return a fact about the whole run, or None if nothing is said or what is said differs."""
        return self.facts[name].agreed() if name in self.facts else None

    def stated(self) -> int:
        """Return the last line that states a duration, which a program does when it has done its work."""
        return max((value.line for last in self.walls.values() for value in last.by_writer.values()), default=0)

    def declared_epochs(self) -> Value | None:
        """Return how many epochs are declared; of epochs 0/4 to 4/4 there are five."""
        value = self.fact("epochs")
        seen = self.epochs[False] or self.epochs[True]
        if value and 0 in seen and value.value in seen:
            return value._replace(value=value.value + 1)
        return value

    def is_of_an_epoch(self, end: Value) -> bool:
        """Return whether words of the end name an epoch, or were first said when the first of several was done."""
        if self.highest is None or self.lowest is None or end.epoch is None:
            return False
        return end.epoch == OF_AN_EPOCH or end.epoch <= self.lowest < self.highest

    def _leave_out(self, why: str, record: Record) -> None:
        self.left_out.setdefault(why, Value(why, record.line, one_line(record.text, _TEXT)))

    def _value(self, record: Record, name: str) -> Value:
        value, unit = record.fields[name], record.units.get(name)
        is_guessed = unit == "share" or (unit == "fraction" and name not in ABOVE_ONE)
        if is_guessed:
            unit = "fraction" if value <= 1 else "percent"
        return Value(
            value,
            record.line,
            one_line(record.text, _TEXT) if name == "wall" else "",
            unit,
            record.scopes.get(name) or record.scopes.get("correct" if name == "accuracy" else ""),
            name in record.weak,
            self.epoch if record.epoch is None else record.epoch,
            record.fields.get("of") if name == "accuracy" else None,
            is_guessed,
        )

    def _take_wall(self, record: Record, writer: Writer, end: Value | None) -> None:
        """Take a duration; one of the end of an epoch is known by the words of the end."""
        value = self._value(record, "wall")
        if "completed" in record.says:
            value = value._replace(of_end=end)
            self.ends.walls.add(value)
        self.walls["wall" in record.weak].add(writer, value)

    def _scalars(self, record: Record) -> None:
        fields = record.fields
        if "world_size" in fields and _OF_A_PART.search(record.text):
            del fields["world_size"]
        if "nproc" in fields and "world_size" not in fields:
            is_open = "nnodes" not in fields and _OPEN_NODES.search(record.text) and "--standalone" not in record.text
            if not is_open:
                fields["world_size"] = fields["nproc"] * fields.get("nnodes", 1)
                record.weak.add("world_size")
        if "ranks_listed" in fields:
            fields["world_size"] = fields["ranks_listed"] + 1
            self.facts.pop("world_size", None)  # a table of ranks: its last line counts
        for name in _SCALARS:
            if name in fields:
                self.facts.setdefault(name, Fact()).add(self._value(record, name))

    def _add_epoch(self, record: Record, writer: Writer) -> None:
        epoch = record.fields["epoch"]
        if epoch > MOST_EPOCHS:
            del record.fields["epoch"]
            self._leave_out("a number above 100,000, which is none of an epoch but perhaps of samples", record)
            return
        if "epochs" not in record.fields and "epochs" in self.facts and epoch + 1 == self.epoch:
            return  # the same epoch, by a number that counts from 0
        if record.fields.keys() & {"train_loss", "epochs"}:
            if self.lowest is None:  # what took its time before the first epoch was another program
                self.walls = {False: LastValues(), True: LastValues()}
            last, line = self._trained.get(writer, (epoch, 0))
            if self.lowest is not None and epoch <= self.lowest and epoch < last and line < record.line:
                self._begin_again(record)
            if line < record.line and (line or len(self._trained) < MOST_WRITERS):
                self._trained[writer] = epoch, record.line
        self.epoch = epoch
        self.highest = epoch if self.highest is None else max(self.highest, epoch)
        self.lowest = epoch if self.lowest is None else min(self.lowest, epoch)
        seen = self.epochs["epoch" in record.weak]
        if len(seen) < MOST_EPOCHS:
            seen.setdefault(epoch, record.line)

    def _begin_again(self, record: Record) -> None:
        """Forget how the training before ended and what it came to: another one begins in the same log."""
        self._leave_out("what stands before it, for a training begins again here", record)
        self.highest = self.lowest = self.progress = self.stated_best = None
        self.epochs, self.evaluations, self._trained = {False: {}, True: {}}, {}, {}
        self.walls, self.throughputs, self.run_losses = (
            {False: LastValues(), True: LastValues()},
            LastValues(),
            LastValues(),
        )
        self.ends.completed.clear()
        self.times = []
        self.ends.walls = Fact()

    def _training(self, record: Record, writer: Writer) -> None:
        fields = record.fields
        if fields.keys() & {"train_loss", *METRICS}:
            names_place = not fields.keys().isdisjoint(("epoch", "step", "done"))
            self._rises &= record.origin.is_number and not names_place and self._number <= writer[0]
            self._number = writer[0]
        if "run_loss" in fields:
            self.run_losses.add(writer, self._value(record, "run_loss"))
        if not record.trains:
            return
        if "train_loss" in fields:
            value, before_it = self._value(record, "train_loss"), self.losses.by_writer.get(writer)
            if "total" not in fields:  # of lines that name steps only the first and the last of many are read
                again = before_it is not None and before_it.line != value.line and before_it.epoch == value.epoch
                self.has_steps |= again or not fields.keys().isdisjoint(("step", "done"))
            self.losses.add(writer, value)
        if record.origin.time and not self.times:
            self.times = [(record.line, record.origin.time)]
        before = self.progress
        self.named_after |= before is None and self.epoch is None
        now = Progress(record.line, fields.get("epoch", self.epoch), *(fields.get(name) for name in _PLACES))
        self.progress = now
        if before is None or before.done is None or now.done is None:
            return
        if now.done > before.done:
            self.stride = now.done - before.done
        if before.epoch != now.epoch:
            self.widest = max(self.widest or 0, before.done)

    def _take_pass(self, fields: dict[str, Any], record: Record) -> None:
        """Take a bar over other data, which follows on that of an epoch, for an evaluation, not for training.

        The epoch was done, and this bar counts other data or again. Without an accuracy it is known by its own length,
        as the next bar of a training may name no epoch. One over the same data again is no evaluation.
        """
        accuracy = fields.pop("pass_accuracy", None)
        before, done, total = self.progress, fields.get("done"), fields.get("total")
        if before is None or before.done is None or done is None or "epoch" in fields or before.epoch != self.epoch:
            return
        is_again = (done, total) == (before.done, before.total)
        known = self.losses.by_writer.get(record.origin.writer)
        is_other = known is not None and not isclose(known.value, fields.get("train_loss", known.value), rel_tol=0.05)
        if before.done != before.total or (is_again and (not is_other or "val_loss" in fields or self.epoch is None)):
            return
        if accuracy is None and (self.epoch is None or total == before.total):
            return
        fields.pop("train_loss", None)
        self.passed = self.epoch if self.passed is None else self.passed
        if accuracy is not None and done == total and not is_again:
            fields.setdefault("accuracy", accuracy)
            record.units.setdefault("accuracy", record.units["pass_accuracy"])
            record.scopes["accuracy"] = record.scopes.get("pass_accuracy", "")

    def _evaluation(self, record: Record, writer: Writer) -> None:
        fields = record.fields
        if "correct" in fields and fields.get("of"):
            fields.setdefault("accuracy", round(100 * fields["correct"] / fields["of"], 6))
            record.units.setdefault("accuracy", "percent")
        for name in ("accuracy", _BEST):
            if name in fields and fields[name] > _ALL_PERCENT:
                del fields[name]
                self.evaluated = record.line
                self._leave_out("an accuracy above 100%", record)
        if _BEST in fields:
            self.stated_best = self._value(record, _BEST)
        for metric in (*METRICS, mlperf.EVALUATION):
            if metric not in fields:
                continue
            self.evaluated = record.line
            value = self._value(record, metric)
            key = (metric in record.weak, metric, writer)
            if key not in self.evaluations:
                self.evaluations[key] = Evaluations(value, value, value, record.best == "stated")
            self.evaluations[key].add(value)
            if len(self.evaluations) > 2 * MOST_WRITERS:
                lowest = sorted(self.evaluations, key=lambda key: key[2])[:MOST_WRITERS]
                self.evaluations = {key: self.evaluations[key] for key in lowest}
