"""How fast event lines are parsed on one core, with other people's lines between them."""

from __future__ import annotations

import io
import time

from bench.timing import typer_cost
from runner.records.events import read_events
from trainkit.event_log import line

LINES = 200_000
ROUNDS = 5
GOAL = 100


def main() -> None:
    """Print megabytes a second of CPU: clean, with foreign lines, and with a broken line in every block."""
    events = [_event(number) for number in range(LINES)]
    clean = b"".join(events)
    mixed = b"".join(one + b"step %d: loss 0.123\n" % number for number, one in enumerate(events))
    broken = b"".join(one + (b":::MLLOG {torn\n" if number % 150 == 0 else b"") for number, one in enumerate(events))
    typer = typer_cost().cpu_seconds
    rates = {name: _rate(data) for name, data in _named(clean, mixed, broken).items()}
    shown = ", ".join(f"{name} {rate:.0f} MB/s ({rate * typer:.0f})" for name, rate in rates.items())
    print(
        f"parsing: {shown} (goal: {GOAL} MB/s and more; in parentheses MB in the time of import typer, "
        f"{typer:.3f} s of CPU), best of {ROUNDS}"
    )


def _named(clean: bytes, mixed: bytes, broken: bytes) -> dict[str, bytes]:
    return {"events alone": clean, "with foreign lines": mixed, "with broken lines": broken}


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
