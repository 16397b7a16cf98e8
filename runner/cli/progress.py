"""Follow the progress of a run from its events: epoch, loss, speed and remaining time."""

from typing import Annotated

import msgspec
from msgspec import Meta

from runner.core import clock
from runner.core.text import one_line
from runner.core.values import LARGEST
from runner.definitions.plan import Run
from runner.records.events import Event

_LONGEST = 60
_Count = Annotated[int, Meta(ge=1, le=10**9)] | None
_Figure = Annotated[float, Meta(ge=0, le=LARGEST)] | None


class _Fields(msgspec.Struct):
    rank: int | None = None
    epoch_num: _Count = None
    epochs: _Count = None
    train_samples: _Figure = None
    trained_samples: _Figure = None
    train_seconds: _Figure = None
    loss: float | None = None


class Progress:
    """The progress of one run."""

    def __init__(self, number: int, total: int, run: Run, earlier_seconds: list[float]) -> None:
        self._number, self._total, self._run = number, total, run
        self._earlier_seconds = earlier_seconds
        self._began = self._epoch_began = self._first_epoch = clock.monotonic()
        self._phase = "starting"
        self._epoch = self._epochs = 0
        self._share = 0.0
        self._loss: float | None = None
        self._rate: float | None = None

    def take(self, event: Event) -> bool:
        """Update the progress from a valid event of rank 0. Return whether the progress changed."""
        try:
            fields = msgspec.convert(event.metadata, _Fields)
            samples = msgspec.convert(event.value, _Figure) if event.key == "progress" else None
        except (msgspec.ValidationError, OverflowError):
            return False
        if fields.rank:
            return False
        now = clock.monotonic()
        if event.key == "epoch_start" and fields.epoch_num:
            self._first_epoch = now if fields.epoch_num == 1 else self._first_epoch
            self._epoch, self._epoch_began, self._share = fields.epoch_num, now, 0.0
            self._epochs = fields.epochs or self._epochs
        elif event.key == "progress":
            self._share = min(1.0, (samples or 0) / fields.train_samples) if fields.train_samples else 0.0
            self._rate = (samples or 0) / (now - self._epoch_began) if now > self._epoch_began else self._rate
        elif event.key == "epoch_stop":
            self._share = 1.0
            self._loss = self._loss if fields.loss is None else fields.loss
            if fields.train_seconds:
                self._rate = (fields.trained_samples or 0) / fields.train_seconds
        else:
            return False
        return True

    def take_printed(self, line: bytes) -> bool:
        """Before the first epoch starts, show a printed line as the phase. Return whether the progress changed."""
        text = one_line(line[: 4 * _LONGEST].decode("utf-8", "replace"), _LONGEST)
        if self._epoch or not text:
            return False
        self._phase = text
        return True

    @property
    def done(self) -> float:
        """The share of the epochs that is done, from 0 to 1."""
        return min(1.0, (self._epoch - 1 + self._share) / self._epochs) if self._epochs and self._epoch else 0.0

    def line(self) -> str:
        """Return the progress in one line."""
        words = [self._phase if self._epoch == 0 else f"epoch {self._epoch}/{self._epochs or '?'}"]
        if self._epoch == 0:
            words.append(_clock(self.elapsed))
        if self._loss is not None:
            words.append(f"loss {self._loss:.4f}")
        if self._rate:
            words.append(f"{self._rate:,.0f} samples/s")
        if self.done > 0:
            left = (clock.monotonic() - self._first_epoch) * (1 - self.done) / self.done
            words.append(f"{_clock(left)} left")
            if self._earlier_seconds and self._number < self._total:
                typical = sum(self._earlier_seconds) / len(self._earlier_seconds)
                words.append(f"{_clock(left + typical * (self._total - self._number))} for all {self._total}")
        return "  ".join(words)

    @property
    def name(self) -> str:
        """The run's number, cell and repeat."""
        return f"{self._number}/{self._total}  {self._run.name}  repeat {self._run.repeat}"

    @property
    def elapsed(self) -> float:
        """The seconds since the run began."""
        return clock.monotonic() - self._began


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
