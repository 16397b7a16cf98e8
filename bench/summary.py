"""Measure `runner summarize` of 10,000 and 100,000 records, in CPU seconds and relative to `import typer`."""

import sys
import tempfile
from pathlib import Path

import msgspec

from bench.timing import IMPORT_TYPER, Cost, cost, in_typers, median
from runner.records.schema import SCHEMA, Launch, NodeExit, Outcome, RankFacts, Record

GOALS = {10_000: (8, 200), 100_000: (60, 500)}
"""Maximum CPU seconds and MB for a number of records."""
PAIRS = 3
# The command writes its own peak: the one of wait4 includes this process's.
_COMMAND = """
import atexit, os
from pathlib import Path
peak = lambda: next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
atexit.register(lambda: Path(os.environ["KIT_BENCH_PEAK"]).write_text(peak()))
from runner.cli import main
main()
"""


def main() -> None:
    """Print time and memory of the command for each size."""
    for count, (seconds, megabytes) in GOALS.items():
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder, "results")
            write_records(results, count)
            typers, ours, memory = zip(*(_pair(results) for _ in range(PAIRS)), strict=True)
        print(
            f"summary: {count:,} records in times of import typer: {in_typers(median(ours), median(typers))}, "
            f"{max(memory):.0f} MB (goal: {seconds} CPU s, {megabytes} MB), medians of {PAIRS} pairs"
        )


def _pair(results: Path) -> tuple[Cost, Cost, float]:
    peak = results.with_name("peak")
    command = [sys.executable, "-c", _COMMAND, "summarize", str(results), "--format", "json"]
    typer = cost(IMPORT_TYPER)
    ours = cost(command, {"KIT_BENCH_PEAK": str(peak)})
    return typer, ours, int(peak.read_text().split()[1]) / 1024


def write_records(results: Path, count: int) -> None:
    """Write realistic records: hundreds of experiments, cells of three repeats, real sizes."""
    for number in range(count):
        layout = ("1x1", "1x2", "1x4", "2x4")[number // 3 % 4]
        name = f"bench-{number // 120}"
        record = _record(name, layout, number)
        folder = results / name / record.launch.id
        folder.mkdir(parents=True)
        (folder / "run.json").write_bytes(msgspec.json.encode(record))


def _record(name: str, layout: str, number: int) -> Record:
    processes = int(layout[0]) * int(layout[2])
    seconds = 100 / processes * (1 + number % 7 / 100)
    facts = {"device_name": "A GPU", "torch": "2.3.1", "python": "3.11.7", "nccl": "2.20.5", "threads": 1, "devices": 1}
    axes = {"backend": "nccl", "variant": number // 12 % 10}
    launch = Launch(
        schema=SCHEMA,
        id=f"20261121T000000Z-local-{number:08x}",
        experiment=name,
        target="local",
        layout=layout,
        axes=axes,
        repeat=number % 3 + 1,
        repeats=3,
        program="mnist.ddp",
        args={"epochs": 15, "batch_size": 512, "seed": 1, **axes},
        scaling="strong",
        measure="train_seconds",
        device="cuda",
        timeout_seconds=1800,
        definition={"name": name, "summary": "A question", "matrix": {"layout": ["1x1", "1x2", "1x4", "2x4"]}},
        definition_sha256=f"{name:0>64}",
        argv=[["torchrun", "-m", "experiments.mnist.ddp", "--epochs", "15"]],
        started=f"2026-11-21T00:00:{number % 60:02}+00:00",
        runner={"version": "0.1.0", "host": "bench", "pid": 1, "pid_started": 0.0},
        host={"name": "bench", "cpu": "A CPU", "cores": 64, "gpus": ["A GPU"] * 8},
        code={"sources_sha256": "0" * 64, "commit": "0" * 40, "dirty": False},
    )
    return Record(
        launch=launch,
        status="completed",
        outcome=Outcome(ended="2026-11-21T00:01:00+00:00", wall_seconds=seconds + 5, exits=[NodeExit(0, 0)]),
        ranks=[
            RankFacts(rank=rank, facts=facts, status="success", events_seen=60, events_expected=60)
            for rank in range(processes)
        ],
        metrics={"train_seconds": seconds, "final_accuracy": 0.99, "best_accuracy": 0.991},
        facts={"eval_samples": 10_000, "global_batch_size": 512, "data_sha256": "0" * 64},
        epochs=[
            {"epoch_num": epoch, "train_seconds": seconds / 15, "trained_samples": 60_000, "steps": 118, "loss": 0.1}
            for epoch in range(1, 16)
        ],
        events={"seen": 60 * processes, "expected": 60 * processes, "malformed": 0},
    )
