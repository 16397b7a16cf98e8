"""`runner run` against plain torchrun: the CPU seconds that are no training, and the wall time in ABBA pairs."""

import json
import tempfile
from pathlib import Path

from bench.timing import Cost, abba, cost, interval, tool, typer_cost

PAIRS = 6
GOAL_SECONDS = 0.3
"""On a training of no length."""
GOAL_PERCENT = 2.0
"""Of a minute."""
MINUTE = 60.0
# One process: on a small machine a second one would compete with whatever else runs, and hide what is measured.
ARGS = {"dataset": "digits", "model": "lenet-relu", "batch_size": 256, "seed": 1}


def main() -> None:
    """Print what the runner adds to a training of no length, and to one of about a minute."""
    with tempfile.TemporaryDirectory() as folder:
        epochs = _epochs_of_a_minute()
        short = _compare(Path(folder, "short"), 1, PAIRS)
        long = _compare(Path(folder, "long"), epochs, 2)
    wall = interval([ours.wall_seconds - plain.wall_seconds for plain, ours in short])
    cpu = interval([ours.cpu_seconds - plain.cpu_seconds for plain, ours in short])
    print(
        f"overhead: no length: runner run adds {wall.text(' s')} wall and {cpu.text(' s')} CPU to plain torchrun"
        f" (goal: at most {GOAL_SECONDS:g} s; import typer takes {typer_cost().wall_seconds:.2f} s), {PAIRS} ABBA pairs"
    )
    shares = [100 * (ours.cpu_seconds - plain.cpu_seconds) / plain.wall_seconds for plain, ours in long]
    walls = [ours.wall_seconds - plain.wall_seconds for plain, ours in long]
    print(
        f"overhead: {long[0][0].wall_seconds:.0f} s of training: {sum(shares) / len(shares):+.2f}% of one core is added"
        f" (goal: at most {GOAL_PERCENT:g}%); wall {' and '.join(f'{wall:+.1f} s' for wall in walls)}, two pairs"
    )


def _compare(folder: Path, epochs: int, rounds: int) -> list[tuple[Cost, Cost]]:
    folder.mkdir()
    definition = folder / "overhead.yaml"
    definition.write_text(
        "name: overhead\nsummary: What does the runner cost?\nprogram: mnist.ddp\nscaling: strong\nrepeat: 1\n"
        f"args: {json.dumps({**ARGS, 'epochs': epochs})}\nmatrix: {{layout: [1x1]}}\n"
    )
    ours = [tool("runner"), "run", str(definition), "--device", "cpu", "--results", str(folder / "results")]
    return abba(_torchrun(epochs), ours, rounds)


def _epochs_of_a_minute() -> int:
    """Choose the number of epochs that lasts about a minute on this machine."""
    few, many = cost(_torchrun(2)).wall_seconds, cost(_torchrun(12)).wall_seconds
    return max(1, round((MINUTE - few) / max((many - few) / 10, 0.01)))


def _torchrun(epochs: int) -> list[str]:
    args = {**ARGS, "scaling": "strong", "device": "cpu", "epochs": epochs}
    words = [word for key, value in args.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    launch = ["--standalone", "--nproc-per-node", "1", "--monitor-interval", "0.1"]
    return [tool("torchrun"), *launch, "-m", "experiments.mnist.ddp", *words]
