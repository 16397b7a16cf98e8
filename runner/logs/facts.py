"""What the records of a log add up to. Nothing here grows with the log."""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime

from runner.core.text import one_line
from runner.logs import mlperf
from runner.logs.fields import ABOVE_ONE, METRICS
from runner.logs.origin import Origin
from runner.logs.values import MOST_WRITERS, Evaluations, Fact, LastValues, Record, Value, Writer

MOST_EPOCHS = 100_000
"""How many epochs are kept; a higher number is none of an epoch, but one of samples."""
MOST_WORDS = 1_000
_TEXT = 200
_LONGEST_TRACEBACK = 200
"""Lines of the traceback of an exception that Python ignores."""
_SCALARS = ("world_size", "nnodes", "backend", "epochs", "speedup")
_PLACES = ("done", "total", "step", "steps")
_BEST = "best_accuracy"
_ALL_PERCENT = 100 + 1e-6
_NUMBER = re.compile(r"\d[\d.,:]*")
_OPEN_NODES = re.compile(r"--nnode|[\\^`]\s*$")
"""What a command of torchrun has if it does not say how many nodes there are: --nnodes=1:4, or a line that goes on."""
_OF_A_PART = re.compile(
    r"(?:[Pp]arallel|[Ll]ocal|[Rr]ole|[Nn]ode|[Tt]ensor|[Pp]ipeline|[Dd]ata|[Ee]xpert|[Cc]ontext|[Mm]odel"
    r"|[Ss]hard|[Gg]roup,?|\b[TtPpDdEeCcSs][Pp])"
    r"[ _-]{1,2}[Ww]orld[ _]?[Ss]ize"
)
"""A number of processes that is not that of the whole run."""
_OF_ANOTHER = re.compile(
    r"\W{0,3}[Ee]poch\W{0,3}\d(?!\d*: [Ee]arly)|\b(?:until|when|once|after|before|if|unless|[Tt]okenizer|[Vv]ocab\w*"
    r"|[Pp]hase|[Ss]tage)\b[^.]{0,60}[Tt]raining\b"
)
"""What was done, or is still to be done, is not the training: `kept until training is complete`."""


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
    """The most of an epoch that was seen done before the next one began."""
    stride: int = 0
    has_steps: bool = False
    """Whether an epoch has several lines of the training, none of which says how far the epoch is."""
    evaluated: int = 0
    """The line of the last evaluation."""
    failure: Value | None = None
    """The last line that says that the run, or a part of it, failed."""
    failed: Writer | None = None
    ends: dict[tuple[Writer, str], int] = field(default_factory=dict)
    """Of all words that say that a run completed the last line, until a line of the training follows."""
    repeated: set[tuple[Writer, str]] = field(default_factory=set)
    """Words of the end that the training went on after: they are of an epoch."""
    said: dict[str, int] = field(default_factory=dict)
    """The last line that was ignored or elided."""
    restart: int = 0
    """The line in which a second training begins."""
    left_out: dict[str, Value] = field(default_factory=dict)
    """The first line with a value that cannot be right, by what is wrong with it."""
    times: list[tuple[int, datetime]] = field(default_factory=list)
    """The first loss line with a time stamp and the last line with one that says something."""
    runs: dict[str, list[mlperf.Event]] = field(default_factory=lambda: defaultdict(list))
    run_lines: dict[str, int] = field(default_factory=dict)
    benchmark: str | None = None
    dialects: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    prefixes: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    writers: set[Writer] = field(default_factory=set)
    has_more_writers: bool = False
    epoch: float | int | None = None
    """The epoch that was named last."""
    _trained: dict[tuple[Writer, bool], tuple[float | int, float | int]] = field(default_factory=dict)
    """The first and the last epoch of the training of each writer, and its steps before it names an epoch (True)."""
    _ignored: dict[Writer, int] = field(default_factory=dict)
    _has_bare_numbers: bool = False

    def add(self, record: Record) -> None:
        """Take in what a line said."""
        fields, writer = record.fields, self._writer(record)
        self._scalars(record)
        if "epoch" in fields:
            self._add_epoch(record)
        if record.trains:
            self._train(record, writer)
        self._evaluate(record, writer)
        for name, last in (("run_loss", self.run_losses), ("throughput", self.throughputs)):
            if name in fields:
                last.add(writer, self._value(record, name))
        if "wall" in fields:
            self.walls["wall" in record.weak].add(writer, self._value(record, "wall"))
        self._end(record, writer)
        is_later = bool(self.times) and record.line > self.times[0][0]
        if record.origin.time and is_later and (record.says or fields.keys() - {"epoch"}):
            self.times[1:] = [(record.line, record.origin.time)]

    def _writer(self, record: Record) -> Writer:
        """Count a record, and return who printed it."""
        self.dialects[record.dialect] += record.lines
        for kind in record.origin.kinds:
            self.prefixes[kind] += record.lines
        if record.origin.is_number and record.fields.keys().isdisjoint(("epoch", "step", "done")):
            self._has_bare_numbers |= not record.fields.keys().isdisjoint(("train_loss", *METRICS))
        rank, *name = record.origin.writer
        writer = (record.fields.get("rank", rank), *name)
        if writer not in self.writers:
            self.has_more_writers |= len(self.writers) == MOST_WRITERS
            self.writers |= set() if self.has_more_writers else {writer}
        if record.is_cut:
            self._leave_out("a number of it was read only up to its comma or point", record)
        return writer

    def settle(self) -> None:
        """Take no figure by bare numbers before lines as `[300] loss: 1.9`, if each stands once.

        Of a log with two trainings no figure is taken either.
        """
        counts = [found.count for found in self.evaluations.values()]
        is_open = self._has_bare_numbers and len(self.writers) > 1
        if self.restart or (is_open and not self.losses.is_repeated and max(counts, default=1) == 1):
            self.losses, self.evaluations, self.stated_best = LastValues(), {}, None
        if self.restart:
            self.run_losses, self.throughputs, self.times = LastValues(), LastValues(), []
            self.walls, self.epochs = {False: LastValues(), True: LastValues()}, {False: {}, True: {}}

    def add_event(self, event: mlperf.Event, line: int, origin: Origin) -> None:
        """Take in an MLPerf event."""
        record = Record(line, event.key, origin, "mlperf")
        self.epoch = None if event.key == "run_start" else self.epoch
        self.benchmark = self.benchmark or event.benchmark
        number = mlperf.number(event.metadata.get("epoch_num"))
        if event.key in ("run_start", "run_stop"):
            if len(self.runs[event.key]) < MOST_WRITERS:
                self.runs[event.key].append(event)
            if event.key == "run_stop" or len(self.runs[event.key]) == 1:
                self.run_lines[event.key] = line
            self.run_lines[f"last {event.key}"] = line
        elif event.key in ("submission_benchmark", "benchmark") and isinstance(event.value, str):
            self.benchmark = event.value
        elif event.key in ("number_of_ranks", "number_of_nodes"):
            name = {"number_of_ranks": "world_size", "number_of_nodes": "nnodes"}[event.key]
            count = mlperf.number(event.value)
            record.fields |= {name: int(count)} if count is not None and count >= 1 else {}
        elif event.key in ("epoch_start", "train_epoch"):
            number = mlperf.number(event.value) if number is None else number
            record.fields |= {"epoch": int(number)} if number is not None and float(number).is_integer() else {}
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

    def seen(self) -> dict[float | int, int]:
        """Return the epochs that the training names, or those that count only where it names none."""
        return self.epochs[False] or self.epochs[True]

    def declared_epochs(self) -> Value | None:
        """Return how many epochs are declared; of epochs 0/4 to 4/4 there are five."""
        value = self.fact("epochs")
        if value and 0 in self.seen() and value.value in self.seen():
            return value._replace(value=value.value + 1)
        return value

    def wall(self) -> Value | None:
        """Return the duration of the run, which is none that is stated again and again."""
        for weak in (False, True):
            values = {
                key: one for key, one in self.walls[weak].by_writer.items() if not self.is_repeated(key, one.text)
            }
            if values:
                return values[min(values)]
        return None

    def is_repeated(self, writer: Writer, text: str) -> bool:
        """Return whether the training went on after the same words."""
        return (writer, _NUMBER.sub("0", text[:_TEXT])) in self.repeated

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

    def _add_epoch(self, record: Record) -> None:
        epoch = record.fields["epoch"]
        if epoch > MOST_EPOCHS:
            del record.fields["epoch"]
            self._leave_out("a number above 100,000, which is none of an epoch but perhaps of samples", record)
            return
        if "epochs" not in record.fields and "epochs" in self.facts and epoch + 1 == self.epoch:
            return  # the same epoch, by a number that counts from 0
        self.epoch = epoch
        self.epochs["epoch" in record.weak].setdefault(epoch, record.line)

    def _train(self, record: Record, writer: Writer) -> None:
        fields, before = record.fields, self.progress
        now = Progress(record.line, fields.get("epoch", self.epoch), *map(fields.get, _PLACES))
        value, known = self._value(record, "train_loss") if "train_loss" in fields else None, self.losses.by_writer
        if before and before.done is not None and before.done == before.total and before.epoch == now.epoch:
            # A bar is shown again at its end; or one over other data is an evaluation, or the next epoch: nobody knows.
            if value and (now.done is None or "epoch" in fields):
                self.losses.add(writer, value)
            elif value:
                del fields["train_loss"]
                self.restart = self.restart or (record.line if now.epoch is None else 0)
            return
        self._take_place(now, writer)
        self._go_on(writer)
        if value:
            is_again = writer in known and known[writer].line != value.line and known[writer].epoch == value.epoch
            self.has_steps |= "total" not in fields and is_again
            self.losses.add(writer, value)
        if record.origin.time and not self.times:
            self.times = [(record.line, record.origin.time)]

    def _take_place(self, now: Progress, writer: Writer) -> None:
        """Take where the training is; a second one begins where it goes back to its first epoch or step."""
        place, before = now.step if now.epoch is None else now.epoch, self.progress
        if place is not None:
            key = writer, now.epoch is None
            first, last = self._trained.get(key, (place, place))
            if place <= first and place < last:
                self.restart = self.restart or now.line
            if key in self._trained or len(self._trained) < MOST_WRITERS:
                self._trained[key] = first, place
        if before and before.done is not None and now.done is not None:
            if now.done > before.done:
                self.stride = now.done - before.done
            if before.epoch != now.epoch:
                self.widest = max(self.widest or 0, before.done)
        self.progress = now

    def _go_on(self, writer: Writer) -> None:
        """Take what a writer has said of its end for words of an epoch."""
        for key in [key for key in self.ends if key[0] == writer]:
            del self.ends[key]
            self.repeated |= {key} if len(self.repeated) < MOST_WORDS else set()
        for walls in self.walls.values():
            wall = walls.by_writer.pop(writer, None)
            if wall and len(self.repeated) < MOST_WORDS:
                self.repeated.add((writer, _NUMBER.sub("0", wall.text)))

    def _evaluate(self, record: Record, writer: Writer) -> None:
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
        if fields.keys().isdisjoint(_EVALUATIONS):
            return
        self.evaluated = record.line
        for metric in _EVALUATIONS & fields.keys():
            value = self._value(record, metric)
            key = (metric in record.weak, metric, writer)
            if key not in self.evaluations:
                self.evaluations[key] = Evaluations(value, value, value, record.best == "stated")
            self.evaluations[key].add(value)
            if len(self.evaluations) > 2 * MOST_WRITERS:
                lowest = sorted(self.evaluations, key=lambda key: key[2])[:MOST_WRITERS]
                self.evaluations = {key: self.evaluations[key] for key in lowest}

    def _end(self, record: Record, writer: Writer) -> None:
        """Take in what a line says about the end."""
        if not (record.says or self._ignored):
            return
        says = record.says if self.progress or self.evaluated else record.says - record.weak
        for word in says & {"ignored", "elided"}:
            self.said[word] = record.line
        if "ignored" in says and len(self._ignored) < MOST_WRITERS:
            self._ignored[writer] = record.line
            return
        if self._ignored and (says or record.trains):  # the exception that ends a traceback which Python ignores
            begin = self._ignored.pop(writer, None)
            says = says - {"trouble"} if begin and record.line - begin <= _LONGEST_TRACEBACK else says
        for word in says & {"trouble", "failed"}:
            self.failure, self.failed = Value(word, record.line, one_line(record.text, _TEXT)), writer
        if "completed" in says and not _OF_ANOTHER.search(record.text) and len(self.ends) < MOST_WORDS:
            self.ends[writer, _NUMBER.sub("0", record.text[:_TEXT])] = record.line


_EVALUATIONS = frozenset((*METRICS, mlperf.EVALUATION))
