"""Combine the lines of a log into facts, in bounded memory."""

import math
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from runner.core.text import one_line
from runner.logs import mlperf
from runner.logs.dialect import BELOW, MLPERF, Value
from runner.logs.origin import MOST_WRITERS, Origin, Who
from runner.logs.pattern import METRICS

_MOST_EPOCHS = 100_000
"""Highest plausible epoch. Higher numbers may count samples."""
_MOST_KEPT = 1_000
"""Maximum messages kept about the end."""
_MOST_SAID = 20
"""Maximum different values kept of one fact."""
_LONGEST_TRACEBACK = 200
"""Maximum lines of the traceback of an exception that Python ignores."""
_OF_THE_RUN = ("world_size", "nnodes", "backend", "epochs", "speedup")
_PLACES = ("done", "total", "step", "steps")
_ABOVE = "an accuracy above 100%"
_CLOSE = 2e-3
_NUMBER = re.compile(r"\d[\d.,:]*")
_OPEN_NODES = re.compile(r"--nnode|[\\^`]\s*$")
"""Command of torchrun whose number of nodes may vary (--nnodes=1:4) or follow on the next line."""
_OF_A_PART = re.compile(
    r"(?:[Pp]arallel|[Ll]ocal|[Rr]ole|[Nn]ode|[Tt]ensor|[Pp]ipeline|[Dd]ata|[Ee]xpert|[Cc]ontext|[Mm]odel"
    r"|[Ss]hard|[Gg]roup,?|\b[TtPpDdEeCcSs][Pp])"
    r"[ _-]{1,2}[Ww]orld[ _]?[Ss]ize"
)
"""Names of a world size that covers only a part of the run."""
_OF_ANOTHER = re.compile(
    r"\W{0,3}[Ee]poch\W{0,3}\d(?!\d*: [Ee]arly)|\b(?:until|when|once|after|before|if|unless|[Tt]okenizer|[Vv]ocab\w*"
    r"|[Pp]hase|[Ss]tage)\b[^.]{0,60}[Tt]raining\b"
)
"""Phrases that mention the end of a training without stating it: `kept until training is complete`."""


@dataclass
class Record:
    """Values and status words (such as `completed`) that one dialect reads in a line."""

    line: int
    text: str
    origin: Origin
    dialect: str = MLPERF
    best: str = "computed"
    lines: int = 1
    """Number of similar lines that this record represents."""
    values: dict[str, Value] = field(default_factory=dict)
    says: set[str] = field(default_factory=set)
    weak: set[str] = field(default_factory=set)
    """Words of `says` that count only once training has begun."""
    wrong: list[str] = field(default_factory=list)
    """Reasons why values were left out."""

    @property
    def trains(self) -> bool:
        """Return whether the line is from the training."""
        return "train_loss" in self.values or "steps" in self.values

    def finish(self) -> None:
        """Derive further values, such as the accuracy from counts, and drop implausible values."""
        values = self.values
        if "correct" in values and "of" in values and values["of"].value:
            correct, samples = values["correct"], values["of"].value
            share = correct._replace(value=round(100 * correct.value / samples, 6), unit="percent", samples=samples)
            values.setdefault("accuracy", share)
        for name in ("accuracy", "best_accuracy"):
            if name in values and values[name].value > 100 + 1e-6:
                del values[name]
                self.wrong.append(_ABOVE)
        if "epoch" in values and values["epoch"].value > _MOST_EPOCHS:
            del values["epoch"]
            self.wrong.append("a number above 100,000 is not an epoch, perhaps a count of samples")
        if "world_size" in values and _OF_A_PART.search(self.text):
            del values["world_size"]
        if (nproc := values.get("nproc")) and "world_size" not in values:
            nodes = values.get("nnodes")
            if nodes or "--standalone" in self.text or not _OPEN_NODES.search(self.text):
                values["world_size"] = nproc._replace(value=nproc.value * (nodes.value if nodes else 1), weak=True)


class Progress(NamedTuple):
    """Position that the training had reached when it printed its last line."""

    line: int
    epoch: float | int | None
    done: int | None
    total: int | None
    step: int | None
    steps: int | None


@dataclass
class Evaluations:
    """Evaluations of one metric by one writer."""

    last: Value
    lowest: Value
    highest: Value
    stated_best: bool
    """Whether the best value counts only if a line states it."""
    count: int = 0
    is_mixed: bool = False
    """Whether the data or the guessed units differ (0.9, then 45.1), so that evaluations cannot be compared."""

    def add(self, value: Value) -> None:
        """Add the next evaluation."""
        last = self.last
        is_unlike = value.is_guessed and last.is_guessed and value.unit != last.unit
        self.is_mixed |= is_unlike or value.samples != last.samples
        self.count += 1
        self.last = value
        finite = [one for one in (self.lowest, self.highest, value) if math.isfinite(one.value)] or [value]
        self.lowest, self.highest = (one(finite, key=lambda value: value.comparable) for one in (min, max))


@dataclass
class Writer:
    """Values that a process, container or rank states. Values of the writer with the lowest sort key count."""

    train_loss: Value | None = None
    run_loss: Value | None = None
    throughput: Value | None = None
    evaluations: dict[tuple[bool, str], Evaluations] = field(default_factory=dict)
    """Evaluations, by whether they are stated weakly, and by metric."""
    places: dict[bool, tuple[float, float, int]] = field(default_factory=dict)
    """First and last epoch, and the first one's line (False); the same for steps outside of epochs (True)."""
    titles: dict[float | int, list[int]] = field(default_factory=dict)
    """Lines of headings such as `Epoch 1/5`, for the first two epochs."""
    ignored: int = 0
    """Line where Python last reported an exception that it ignored."""


class End(NamedTuple):
    """Message about the end of the run, with the last line that holds the message.

    `word` is `completed`, `failed` or `trouble`. It is '' if the message states only a duration.
    """

    line: int
    text: str
    who: Who
    word: str
    wall: Value | None = None


@dataclass
class Facts:
    """Facts of one log."""

    writers: dict[Who, Writer] = field(default_factory=dict)
    has_more_writers: bool = False
    said: dict[str, list[Value]] = field(default_factory=dict)
    """Different values stated for the whole run."""
    epochs: dict[bool, dict[float | int, int]] = field(default_factory=lambda: {False: {}, True: {}})
    """First line of each epoch, with weakly stated epochs kept apart under True."""
    stated_best: Value | None = None
    progress: Progress | None = None
    widest: int | None = None
    """Furthest position that an epoch reached before the next epoch began."""
    has_steps: bool = False
    """Whether an epoch has several lines with a loss that do not tell how far the epoch is."""
    is_repeated: bool = False
    """Whether a writer states several losses or evaluations."""
    evaluated: int = 0
    failure: End | None = None
    ends: dict[tuple[Who, str], End] = field(default_factory=dict)
    """Messages about the end, by writer and text, if training did not continue."""
    repeated: set[tuple[Who, str]] = field(default_factory=set)
    """Messages followed by more training, which therefore concern an epoch."""
    restart: tuple[int, int] | None = None
    """Lines where a training begins and apparently begins again."""
    left_out: dict[str, tuple[int, str]] = field(default_factory=dict)
    """First line with a value left out, by reason."""
    times: list[tuple[int, datetime]] = field(default_factory=list)
    """Time stamps of the first loss line and of the last informative line."""
    runs: dict[str, list[tuple[int, mlperf.Event, Who]]] = field(default_factory=dict)
    """MLPerf's run_start and run_stop events."""
    benchmark: str | None = None
    dialects: dict[str, int] = field(default_factory=dict)
    epoch: float | int | None = None
    _has_bare_numbers: bool = False

    def add(self, record: Record) -> None:
        """Add the values and status words that a dialect reads in a line."""
        values, origin = record.values, record.origin
        self.dialects[record.dialect] = self.dialects.get(record.dialect, 0) + record.lines
        for why in record.wrong:
            self.left_out.setdefault(why, (record.line, one_line(record.text, 200)))
        who = origin.writer
        if "rank" in values:
            who = values["rank"].value, *who[1:]
        if who not in self.writers and len(self.writers) == MOST_WRITERS:
            self.has_more_writers = True
            return
        writer = self.writers.setdefault(who, Writer())
        if origin.is_number and values.keys().isdisjoint(("epoch", "step", "done")):
            self._has_bare_numbers |= not values.keys().isdisjoint(("train_loss", *METRICS))
        self._take_facts(values)
        self._take_summary(record, writer)
        if record.trains:
            self._train(record, who, writer)
        self._evaluate(record, writer)
        self._end(record, who, writer)
        epoch, epochs = values.get("epoch"), values.get("epochs")
        is_title = epochs and (epochs.value == 1 or "train_loss" not in values) and values.keys().isdisjoint(_PLACES)
        if epoch and is_title and (epoch.value in writer.titles or len(writer.titles) < 2):
            lines = writer.titles.setdefault(epoch.value, [])
            lines[MOST_WRITERS:] = {record.line} - {*lines}
        if origin.time and self.times and record.line > self.times[0][0] and (record.says or values.keys() - {"epoch"}):
            self.times[1:] = [(record.line, origin.time)]

    def add_event(self, event: mlperf.Event, record: Record) -> None:
        """Add an MLPerf event."""
        key, value, epoch = event.key, event.value, mlperf.number(event.metadata.get("epoch_num"))
        new: Value | None = None
        if key in ("run_start", "run_stop"):
            known, who = self.runs.setdefault(key, []), record.origin.writer
            if key == "run_start":
                self.epoch = None
                stops = self.runs.get("run_stop", [])
                if who in [stopped for *_, stopped in stops]:
                    self.restart = self.restart or ((known or stops)[0][0], record.line)
            known[MOST_WRITERS:] = [(record.line, event, who)]
        elif key == "submission_benchmark" and isinstance(value, str):
            self.benchmark = value
        elif key in ("number_of_ranks", "number_of_nodes"):
            count = mlperf.number(value) or 0
            key = "world_size" if key == "number_of_ranks" else "nnodes"
            new = Value(int(count), record.line) if count >= 1 else None
        elif key in ("epoch_start", "train_epoch"):
            epoch = mlperf.number(value) if epoch is None else epoch
            key, is_whole = "epoch", epoch is not None and float(epoch).is_integer()
            new = Value(int(epoch or 0), record.line) if is_whole else None
        elif key == mlperf.EVALUATION:
            result, scope = mlperf.evaluation(value)
            record.wrong += [BELOW] if result is not None and result < 0 else []
            new = None if result is None or result < 0 else Value(result, record.line, scope=scope, epoch=epoch)
        record.values = {key: new._replace(weak=True)} if new else {}
        self.add(record)

    def settle(self) -> None:
        """Drop figures that may be wrong.

        If the log holds two trainings, all figures are dropped. A bare number, as in `[300] loss: 1.9`, may be no rank.
        If none states several losses or evaluations, all of these are dropped.
        """
        world = self.fact("world_size")
        for writer in self.writers.values():
            first, second = [*writer.titles.values(), [], []][:2]  # every rank may print every epoch
            times = max(len(second), world.value if world and len(self.writers) == 1 else 1)
            if len(first) > times:
                self.restart = self.restart or (first[0], first[times])
        if self.restart:
            self.writers, self.ends, self.times, self.epochs = {}, {}, [], {False: {}, True: {}}
            self.runs, self.stated_best = {}, None
        elif self._has_bare_numbers and len(self.writers) > 1 and not self.is_repeated:
            self.stated_best = None
            for writer in self.writers.values():
                writer.train_loss, writer.evaluations = None, {}

    def fact(self, name: str) -> Value | None:
        """Return a fact about the whole run; None if the log states no value or different values."""
        values = self.said.get(name, [])
        values = [value for value in values if not value.weak] or values
        return values[0] if len({value.value for value in values}) == 1 else None

    def lowest(self, name: str) -> Value | None:
        """Return the value of the lowest writer that states the value; None if no writer does."""
        values = (getattr(self.writers[who], name) for who in sorted(self.writers))
        return next((value for value in values if value), None)

    def seen(self) -> dict[float | int, int]:
        """Return the first line of each epoch. Weakly stated epochs are returned only if there are no others."""
        return self.epochs[False] or self.epochs[True]

    def declared_epochs(self) -> Value | None:
        """Return the declared number of epochs. If epochs count from 0, it is corrected: 0/4 to 4/4 are five epochs."""
        value = self.fact("epochs")
        is_from_0 = value and 0 in self.seen() and value.value in self.seen()
        return value._replace(value=value.value + 1) if value and is_from_0 else value

    def wall(self) -> End | None:
        """Return the message that states the run's duration; None if there is none.

        A message followed by more training does not count.
        """
        ends = (end for key, end in self.ends.items() if key not in self.repeated)
        walls = {(end.wall.weak, end.who, -end.line): end for end in ends if end.wall}
        return walls[min(walls)] if walls else None

    def _take_facts(self, values: dict[str, Value]) -> None:
        if ranks := values.get("ranks_listed"):  # the last line of a table of ranks counts
            self.said.pop("world_size", None)
            values["world_size"] = ranks._replace(value=ranks.value + 1)
        for name in values.keys() & set(_OF_THE_RUN):
            known, value = self.said.setdefault(name, []), values[name]
            if (value.value, value.weak) not in {(one.value, one.weak) for one in known}:
                known[_MOST_SAID:] = [value]
        if not (epoch := values.get("epoch")):
            return
        if "epochs" in values or "epochs" not in self.said or epoch.value + 1 != self.epoch:
            self.epoch = epoch.value  # else: the same epoch, counted from 0
            self.epochs[epoch.weak].setdefault(epoch.value, epoch.line)

    def _take_summary(self, record: Record, writer: Writer) -> None:
        new, old = record.values.get("run_loss"), writer.run_loss
        if new and old and not (new.weak or old.weak or math.isclose(new.value, old.value, rel_tol=_CLOSE)):
            self.restart = self.restart or (old.line, record.line)
        if new and (old is None or old.weak or not new.weak):
            writer.run_loss = new
        writer.throughput = record.values.get("throughput", writer.throughput)

    def _train(self, record: Record, who: Who, writer: Writer) -> None:
        values, before, loss = record.values, self.progress, record.values.get("train_loss")
        epoch = values["epoch"].value if "epoch" in values else self.epoch
        now = Progress(record.line, epoch, *(values[name].value if name in values else None for name in _PLACES))
        if before and before.done is not None and before.done == before.total and before.epoch == now.epoch:
            # After a finished progress bar, a line may redraw the bar, or belong to an evaluation or the next epoch.
            has_ended = any(end.word for key, end in self.ends.items() if key[0] == who)
            is_other = loss and writer.train_loss and loss.value != writer.train_loss.value
            if loss and (epoch is None or (has_ended and is_other)):
                self.restart = self.restart or (before.line, record.line)
            elif loss and (now.done is None or "epoch" in values):
                writer.train_loss = loss._replace(epoch=epoch)
            return
        self._go_on(now, who, writer)
        if loss:
            if last_loss := writer.train_loss:
                self.is_repeated = True
                self.has_steps |= now.total is None and last_loss.line != loss.line and last_loss.epoch == epoch
            writer.train_loss = loss._replace(epoch=epoch)
        if record.origin.time and not self.times:
            self.times = [(record.line, record.origin.time)]

    def _go_on(self, now: Progress, who: Who, writer: Writer) -> None:
        place, before = now.step if now.epoch is None else now.epoch, self.progress
        if place is not None:
            first, last, line = writer.places.get(now.epoch is None, (place, place, now.line))
            if place <= first and place < last:
                self.restart = self.restart or (line, now.line)
            writer.places[now.epoch is None] = first, place, line
        if before and before.done is not None and now.done is not None and before.epoch != now.epoch:
            self.widest = max(self.widest or 0, before.done)
        self.progress = now
        for key in [key for key in self.ends if key[0] == who]:  # the writer's messages ended an epoch, not the run
            del self.ends[key]
            if len(self.repeated) < _MOST_KEPT:
                self.repeated.add(key)

    def _evaluate(self, record: Record, writer: Writer) -> None:
        values = record.values
        self.stated_best = values.get("best_accuracy", self.stated_best)
        metrics = values.keys() & {*METRICS, mlperf.EVALUATION}
        if metrics or _ABOVE in record.wrong:
            self.evaluated = record.line
        for metric in metrics:
            value = values[metric]
            value = value if value.epoch is not None else value._replace(epoch=self.epoch)
            new = Evaluations(value, value, value, record.best == "stated")
            known = writer.evaluations.setdefault((value.weak, metric), new)
            known.add(value)
            self.is_repeated |= known.count > 1

    def _end(self, record: Record, who: Who, writer: Writer) -> None:
        says = record.says if self.progress or self.evaluated else record.says - record.weak
        if "ignored" in says:
            writer.ignored = record.line
            return
        if writer.ignored and (says or record.trains):  # this may be the exception that Python ignored
            if record.line - writer.ignored <= _LONGEST_TRACEBACK:
                says = says - {"trouble"}
            writer.ignored = 0
        wall = record.values.get("wall")
        if not (says or wall):
            return
        text = one_line(record.text, 200)
        for word in says & {"trouble", "failed"}:
            self.failure = End(record.line, text, who, word)
        word = "completed" if "completed" in says and not _OF_ANOTHER.search(record.text) else ""
        if (word or wall) and len(self.ends) < _MOST_KEPT:
            self.ends[who, _NUMBER.sub("0", text)] = End(record.line, text, who, word, wall)
