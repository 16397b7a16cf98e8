"""Read the details of single runs from their records: provenance, phases, curves and load.

A reported value that is not a number becomes None, which is a gap in a plot.
"""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from runner.core.layout import Layout
from runner.core.text import listed, one_line
from runner.core.values import number, positive, whole
from runner.records.events import Event, read_events
from runner.records.folder import RunFolder
from runner.records.listing import RECORD
from runner.records.schema import LARGEST_RECORD, Load, Record, load_figure, read_record
from runner.report.run_summary import RunSummary
from runner.report.summarize import BROKEN
from trainkit import files

MOST_BYTES = 64_000_000
"""Bytes of records that are read for a page. The page lacks the details of further runs."""
MOST_POINTS = 120
"""Points of a curve. Longer curves are thinned."""
MOST_MESSAGES = 5_000
MOST_RAW_BYTES = 32_000_000
_LONGEST = 200
_RATE = "_bus_bytes_per_second"

Curve = list[tuple[int, float | None, float | None]]
Rates = dict[str, list[tuple[float, float]]]


@dataclass(frozen=True)
class Details:
    """The details of a run.

    Attributes:
        provenance: host, commit, versions and so on, by name; "" if unknown.
        command: the distinct commands of the nodes.
        seconds: the seconds of each phase, and of the training (`train`), the program (`total`) and the run (`wall`).
        curves: the points of each curve, by name: (epoch, seconds of training until the epoch's end, value).
        load: the points of each load figure, by name: (seconds, mean over nodes and devices).
        rates: the operations whose bus bandwidth is a metric of the run.
    """

    provenance: dict[str, str]
    command: tuple[str, ...]
    seconds: dict[str, float]
    curves: dict[str, Curve] = field(default_factory=dict)
    load: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    rates: tuple[str, ...] = ()


class DetailReader:
    """Read the records of runs, up to `MOST_BYTES` in total. `left_out` counts records that are too large or broken."""

    def __init__(self) -> None:
        self.left_out = 0
        self._room = MOST_BYTES
        self._read: dict[str, Details | None] = {}

    def __call__(self, run: RunSummary) -> Details | None:
        """Return the details of a run; None if its record is too large or broken."""
        if run.path not in self._read:
            path = Path(run.path)
            try:
                data = files.read_file(path / RECORD, min(LARGEST_RECORD, self._room), below=path)
                self._room -= len(data)
                self._read[run.path] = details_of(read_record(data))
            except BROKEN:
                self.left_out += 1
                self._read[run.path] = None
        return self._read[run.path]

    def messages(self, run: RunSummary) -> Rates:
        """Return the bus bandwidths of a run: for each operation, pairs of (bytes of a message, bytes per second)."""
        folder = RunFolder(Path(run.path))
        try:
            for _, path in folder.raw_files(Layout.parse(run.layout)).printed():
                if rates := _messages(path, folder.path):
                    return rates
        except BROKEN:
            pass
        return {}


def details_of(record: Record) -> Details:
    """Reduce a record to the details that a page shows."""
    metrics = record.metrics
    timed = {"train": metrics.get("train_seconds"), "total": metrics.get("total_seconds")}
    timed |= {"wall": metrics.get("wall_seconds"), **record.phases}
    return Details(
        provenance=_provenance(record),
        command=tuple(dict.fromkeys(one_line(shlex.join(words)) for words in record.launch.argv[:64])),
        seconds={name: seconds for name, seconds in timed.items() if seconds is not None and seconds >= 0},
        curves=_curves(record),
        load=_load(record.load),
        rates=tuple(name.removesuffix(_RATE) for name in metrics if name.endswith(_RATE)),
    )


def _provenance(record: Record) -> dict[str, str]:
    launch = record.launch
    facts = [rank.facts for rank in record.ranks if rank.facts]
    commit = launch.code.get("commit")
    git = ", changes unknown" if launch.code.get("git") else ""
    changes = " with uncommitted changes" if launch.code.get("dirty") else git
    image = launch.image or {}
    pulled = [end.place.get("digest") for end in record.outcome.exits] if record.outcome else []
    named = {"torch": "torch", "CUDA": "cuda", "NCCL": "nccl", "Python": "python", "threads": "threads"}
    return {
        "host": _words(fact.get("host") for fact in facts) or _words([launch.host.get("name")]),
        "system": _words([launch.host.get("os")]),
        "commit": f"{_words([commit])[:12]}{changes}" if commit else "",
        "image": _words([image.get("digest") or image.get("id")]) or _words(pulled),
        "sources": _words([launch.code.get("sources_sha256")])[:12],
        "definition": launch.definition_sha256[:12],
        "kit": _words([launch.runner.get("version")]),
        **{label: _words(fact.get(name) for fact in facts) for label, name in named.items()},
    }


def _words(values: Iterable[Any]) -> str:
    return listed(sorted({one_line(value, _LONGEST) for value in values if value is not None}))


def _curves(record: Record) -> dict[str, Curve]:
    epochs = [row for row in record.epochs if whole(row.get("epoch_num")) is not None]
    ends = accumulate(positive(row.get("train_seconds")) or 0.0 for row in epochs)
    clock = {row["epoch_num"]: end or None for row, end in zip(epochs, ends, strict=True)}
    tests = [row for row in record.evaluations if whole(row.get("epoch_num")) is not None]
    sources = (("training loss", epochs, "loss"), ("test loss", tests, "loss"), ("accuracy", tests, "accuracy"))
    curves = {
        label: [(row["epoch_num"], clock.get(row["epoch_num"]), number(row[key])) for row in rows if key in row]
        for label, rows, key in sources
    }
    return {label: thinned(curve) for label, curve in curves.items() if curve}


def _load(nodes: list[Load]) -> dict[str, list[tuple[float, float]]]:
    looks: dict[str, dict[float, list[float]]] = {}
    for node in nodes[:64]:
        for key, values in node.points.items():
            for second, value in zip(node.points["seconds"], values, strict=False):
                if second is not None and value is not None:
                    looks.setdefault(load_figure(key), {}).setdefault(float(round(second)), []).append(value)
    return {
        figure: thinned([(second, sum(values) / len(values)) for second, values in sorted(of_figure.items())])
        for figure, of_figure in looks.items()
    }


def _messages(path: Path, below: Path) -> Rates:
    """Read bandwidths by operation and message size from an output file. Raises ValueError if the file is too long."""
    rates: dict[str, dict[float, float]] = {}
    with files.open_file(path, below) as file:
        if file.seek(0, 2) > MOST_RAW_BYTES:
            raise ValueError(path)
        file.seek(0)
        messages = (_message(event) for events, _ in read_events(file) for event in events)
        for operation, size, rate in islice(filter(None, messages), MOST_MESSAGES):
            rates.setdefault(operation, {})[size] = rate
    return {operation: sorted(sizes.items()) for operation, sizes in rates.items()}


def _message(event: Event) -> tuple[str, float, float] | None:
    size, rate = positive(event.metadata.get("bytes")), positive(event.metadata.get("bus_bytes_per_second"))
    return (one_line(event.value, _LONGEST), size, rate) if size and rate else None


def thinned(values: list[Any]) -> list[Any]:
    """Return at most `MOST_POINTS` of some values: evenly spaced values and the last value."""
    step = -(-len(values) // (MOST_POINTS - 1)) or 1
    return [*values[:-1:step], *values[-1:]]
