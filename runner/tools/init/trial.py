"""The first short run: the script is started once, as `runner run` starts it, and its output is kept beside."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runner.core import clock
from runner.definitions.definition import Experiment
from runner.definitions.plan import Plan, make_plan
from runner.execution.observer import Observer
from runner.execution.run import execute
from runner.execution.signals import Interrupts
from runner.records.folder import RunFolder
from runner.records.schema import Record
from runner.targets.base import Handle, LaunchSpec, Line, Note
from runner.targets.local import Local
from runner.targets.node_view import NodeView

LAYOUT = "1x1"
MOST_BYTES = 50_000_000
"""What a script may print in its first run; one that prints more is ended."""
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Trial:
    """How the first run ended; `folder` is that of the run, with what was printed."""

    record: Record
    folder: Path

    @property
    def failed(self) -> bool:
        """Whether the script failed by itself; one that was ended by us did not."""
        return self.record.failure is not None and not self.ended_early

    @property
    def ended_early(self) -> bool:
        """Whether it was ended, because its time was up or it printed too much."""
        outcome = self.record.outcome
        return outcome is None or bool(outcome.stopped_because) or any(one.stopped for one in outcome.exits)


def plan_trial(experiment: Experiment, device: str, args: dict[str, Any], seconds: float) -> Plan:
    """Plan one run with one process; `args` are added to those of the experiment."""
    short = replace(
        experiment, args={**experiment.args, **args}, dialects={}, timeout_seconds=seconds, skip=(), baseline={}
    )
    return make_plan(short, device=device, layouts=[LAYOUT], repeat=1)


def try_once(plan: Plan, folder: Path, observer: Observer, interrupts: Interrupts) -> Trial:
    """Carry out the run in a folder; whatever it started has ended when this returns.

    Raises RequestError if this machine cannot run it, and Interrupted after a signal.
    """
    seen = _Seen(observer)
    execute(plan, _Bounded(), [], folder, seen, interrupts)
    return Trial(seen.records[0], seen.folders[0])


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a folder for temporary files, which is removed unless something in it is to be kept (`keep`)."""
    folder = Path(tempfile.mkdtemp(prefix="runner-init-"))
    try:
        yield folder
    finally:
        if not (folder / _KEEP).exists():
            shutil.rmtree(folder, ignore_errors=True)


def keep(folder: Path) -> None:
    """Keep a folder of `scratch`."""
    (folder / _KEEP).touch()


_KEEP = "kept"


class _Bounded(Local):
    """The target `local`, but for the size of what is printed."""

    def start(self, spec: LaunchSpec, folder: RunFolder) -> Handle:  # type: ignore[override]
        return _BoundedHandle(super().start(spec, folder), folder.raw)


class _BoundedHandle(Handle):
    """A run that is ended when it has printed too much."""

    def __init__(self, handle: Handle, raw: Path) -> None:
        self._handle, self._raw = handle, raw
        self._looked = clock.monotonic()

    @property
    def exits(self) -> Any:
        return self._handle.exits

    def idle(self) -> list[NodeView]:
        return self._handle.idle()

    def look(self, *, abort: bool = False) -> list[NodeView]:
        return self._handle.look(abort=abort)

    def stop(self) -> None:
        self._handle.stop()

    def lines(self) -> Iterator[Line | Note | None]:
        for line in self._handle.lines():
            yield line
            if clock.monotonic() - self._looked > _LOOK_SECONDS:
                self._looked = clock.monotonic()
                if _size(self._raw) > MOST_BYTES:
                    self.stop()
                    return


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*.log"))


class _Seen:
    """Passes on what happens, and keeps the record and its folder."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.records: list[Record] = []
        self.folders: list[Path] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._observer, name)

    def end(self, _run: Any, record: Record, folder: Path) -> None:
        self.records.append(record)
        self.folders.append(folder)
