"""Measure the CPU seconds that the observer adds to an unchanged script, at its start and per step."""

import os
import statistics
import subprocess
import sys

from bench.timing import ROOT, in_turn
from runner.targets.observing import HOOKS, OBSERVER

PAIRS = 8
STEP_GOAL, START_GOAL = 20e-6, 0.1
_STEPS = """
import sys, time, torch
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8000, 4)), 4)
times = []
for (batch,) in loader:
    optimizer.zero_grad(); model(batch).mean().backward(); optimizer.step()
    times.append(time.thread_time())
times = times[200:]
print(sorted(b - a for a, b in zip(times, times[1:]))[len(times) // 2], file=sys.stderr)
"""
_START = "import torch, time, sys; print(time.process_time(), file=sys.stderr)"


def _seconds(script: str, *, observed: bool) -> float:
    watching = {"KIT_OBSERVE": str(OBSERVER)} if observed else {}
    env = {**os.environ, "PYTHONPATH": str(HOOKS), "KIT_SEEN": "/dev/null/none", "RANK": "0", **watching}
    done = subprocess.run([sys.executable, "-c", script], env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    return float(done.stderr.split()[-1])


def _difference(script: str) -> float:
    pairs = in_turn(lambda: _seconds(script, observed=False), lambda: _seconds(script, observed=True), PAIRS)
    return statistics.median(later - earlier for earlier, later in pairs)


def main() -> None:
    """Print the medians of the differences within pairs."""
    step = _difference(_STEPS)
    start = _difference(_START)
    print(
        f"observer: {step * 1e6:.1f} us a step (goal: at most {STEP_GOAL * 1e6:.0f}), {start:.3f} s of the start "
        f"(goal: at most {START_GOAL}), CPU, medians of {PAIRS} ABBA pairs"
    )
