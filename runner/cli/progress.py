"""How far a run is: what its events say of epochs, loss, speed and the time that remains."""

from runner.core import clock
from runner.core.text import one_line
from runner.core.values import number, positive, whole
from runner.definitions.plan import Run
from runner.records.events import Event

_BEFORE_TRAINING = ("init_start", "data_start", "setup_start", "warmup_start")
_LONGEST = 60
_MOST_EPOCHS = 1_000_000_000
_WATCHED = (*_BEFORE_TRAINING, "epoch_start", "epoch_stop", "progress", "eval_start")


class Progress:
    """The state of the run in progress."""

    def __init__(self, number: int, total: int, run: Run, earlier_seconds: list[float]) -> None:
        self._number, self._total, self._run = number, total, run
        self._earlier_seconds = earlier_seconds
        self._began = clock.monotonic()
        self._phase = "starting"
        self._lines = 0
        self._epoch = self._epochs = 0
        self._share = 0.0
        self._loss: float | None = None
        self._rate: float | None = None
        self._epoch_began = self._first_epoch = self._began

    def take(self, event: Event) -> bool:
        """Take in an event of rank 0; True if it changed what is shown."""
        if event.key not in _WATCHED or event.metadata.get("rank") not in (0, None):
            return False
        fields, now = event.metadata, clock.monotonic()
        if event.key == "epoch_start" and (epoch := whole(fields.get("epoch_num"), 1, _MOST_EPOCHS)):
            self._epoch, self._epoch_began, self._share = epoch, now, 0.0
            self._epochs = whole(fields.get("epochs"), 1, _MOST_EPOCHS) or self._epochs
            self._first_epoch = now if self._phase != "training" and epoch == 1 else self._first_epoch
            self._phase = "training"
        elif event.key == "progress":
            samples, total = number(event.value, 0) or 0, positive(fields.get("train_samples"))
            self._share = min(1.0, samples / total) if total else 0.0
            self._rate = samples / (now - self._epoch_began) if now > self._epoch_began else self._rate
        elif event.key == "epoch_stop":
            self._share = 1.0
            loss, seconds = number(fields.get("loss")), positive(fields.get("train_seconds"))
            self._loss = self._loss if loss is None else loss
            self._rate = (number(fields.get("trained_samples"), 0) or 0) / seconds if seconds else self._rate
        elif self._epoch == 0:
            self._phase = event.key.removesuffix("_start").replace("init", "rendezvous")
        return True

    def take_printed(self, line: bytes) -> bool:
        """Take in a line of a program that prints no events; True if it is what is shown."""
        text = one_line(line[: 4 * _LONGEST].decode("utf-8", "replace"), _LONGEST)
        self._lines += 1
        if self._epoch or not text:
            return False
        self._phase = text
        return True

    @property
    def done(self) -> float:
        """Share of the epochs that is done, 0 to 1."""
        return min(1.0, (self._epoch - 1 + self._share) / self._epochs) if self._epochs and self._epoch else 0.0

    def line(self) -> str:
        """Write it in one line."""
        words = [self._phase if self._epoch == 0 else f"epoch {self._epoch}/{self._epochs or '?'}"]
        if self._epoch == 0 and self._lines:
            rate = self._lines / max(self.elapsed, 1.0)
            words += [f"{self._lines:,} line{'s' * (self._lines > 1)}, {rate:,.1f}/s", _clock(self.elapsed)]
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
        """Name the run."""
        return f"{self._number}/{self._total}  {self._run.name}  repeat {self._run.repeat}"

    @property
    def elapsed(self) -> float:
        """Seconds since the run was begun."""
        return clock.monotonic() - self._began


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
