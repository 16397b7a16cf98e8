"""Measure the parsing speed on one core: event lines, event lines mixed with other output, and foreign logs."""

import io
import random
import time

from bench.timing import typer_cost
from runner.logs.reading import read_stream
from runner.records.events import read_events
from trainkit.event_log import line

LINES = 200_000
ROUNDS = 3
GOAL = 100
FOREIGN_GOAL = 10
FOREIGN_BYTES = 10_000_000
_WORDS = b"the of worker model batch reading queue tensor shard file cache data train valid gpu node".split()


def main() -> None:
    """Print megabytes per CPU second for clean logs, logs with foreign lines, and logs with broken lines."""
    events = [_event(number) for number in range(LINES)]
    clean = b"".join(events)
    mixed = b"".join(line + b"step %d: loss 0.123\n" % number for number, line in enumerate(events))
    broken = b"".join(line + (b":::MLLOG {torn\n" if number % 150 == 0 else b"") for number, line in enumerate(events))
    typer = typer_cost().cpu_seconds
    logs = {"events alone": clean, "with foreign lines": mixed, "with broken lines": broken}
    rates = {name: _rate(data) for name, data in logs.items()}
    shown = ", ".join(f"{name} {rate:.0f} MB/s ({rate * typer:.0f})" for name, rate in rates.items())
    print(
        f"parsing: {shown} (goal: {GOAL} MB/s and more; in parentheses MB in the time of import typer, "
        f"{typer:.3f} s of CPU), best of {ROUNDS}"
    )
    _foreign()


def _foreign() -> None:
    """Print megabytes per CPU second for raw text, and for foreign logs in which every line matches."""
    rates = []
    for name, write in (("raw text", _raw), ("MLPerf events", _mlperf), ("MNIST", _mnist), ("Hugging Face", _trainer)):
        dice = random.Random(1)  # noqa: S311 - a workload
        some = [write(number, dice) for number in range(100_000)]
        more = FOREIGN_BYTES // sum(map(len, some)) + 1
        data = b"".join(some * more)
        rates.append(f"{name} {max(_foreign_rate(data, name) for _ in range(ROUNDS)):.0f} MB/s")
    print(f"parsing: other people's logs: {', '.join(rates)} (goal: {FOREIGN_GOAL} MB/s and more), best of {ROUNDS}")


def _foreign_rate(data: bytes, name: str) -> float:
    began = time.process_time()
    reading = read_stream(io.BytesIO(data).read)
    seconds = time.process_time() - began
    if bool(reading.facts.dialects) != (name != "raw text"):
        raise SystemExit(f"parsing: {name} was read as {reading.facts.dialects}")
    return len(data) / seconds / 1e6


def _raw(_: int, dice: random.Random) -> bytes:
    return b"%s %d\n" % (b" ".join(dice.choices(_WORDS, k=14)), dice.randrange(10**6))


def _mlperf(number: int, dice: random.Random) -> bytes:
    key, value = (b"eval_accuracy", dice.random()) if number % 20 == 0 else (b"tracked_stats", dice.random() * 10)
    return (
        b':::MLLOG {"namespace": "", "time_ms": %d, "event_type": "POINT_IN_TIME", "key": "%s", "value": %r, '
        b'"metadata": {"file": "train.py", "lineno": 120, "epoch_num": %d, "step": %d}}\n'
    ) % (1_700_000_000_000 + number, key, value, number // 3_000, number)


def _mnist(number: int, dice: random.Random) -> bytes:
    epoch, step = divmod(number, 938)
    return b"Train Epoch: %d [%d/60000 (%d%%)]\tLoss: %.6f\n" % (epoch, step * 64, step * 100 // 938, dice.random() * 2)


def _trainer(number: int, dice: random.Random) -> bytes:
    return b"{'loss': %.4f, 'grad_norm': %r, 'learning_rate': %r, 'epoch': %.2f}\n" % (
        dice.random() * 3,
        dice.random() * 5,
        dice.random() * 1e-4,
        number / 500,
    )


def _rate(data: bytes) -> float:
    best = 0.0
    for _ in range(ROUNDS):
        began = time.process_time()
        found = sum(len(block.events) for block in read_events(io.BytesIO(data)))
        best = max(best, len(data) / (time.process_time() - began) / 1e6)
        if found != LINES:
            raise SystemExit(f"parsing: {found} of {LINES} events were found")
    return best


def _event(number: int) -> bytes:
    return line(
        {
            "namespace": "",
            "time_ms": 1_700_000_000_000 + number,
            "event_type": "INTERVAL_END",
            "key": "epoch_stop",
            "value": None,
            "metadata": {
                "rank": number % 8,
                "seq": number // 8,
                "epoch_num": 3,
                "train_seconds": 1.2345,
                "samples": 512,
                "steps": 12,
                "trained_samples": 1024,
                "loss": 0.123456789,
                "loss_hex": "0x1.f9add3739635fp-4",
                "lr": 0.001,
                "global_batch_size": 512,
            },
        }
    )
