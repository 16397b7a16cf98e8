"""Projects of the tests' own, in a folder with an awkward name, and the command `runner` as a person types it."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runner.collect import collect
from runner.layout import Layout
from runner.record import RunFolder, begin
from runner.schema import SCHEMA, Launch, NodeExit, Outcome

ROOT = Path(__file__).parents[2]
RUNNER = str(Path(sys.executable).with_name("runner"))
WEIRD = 'it\'s a "wéird" pàth, 目 %20 #1?'
MINIMAL = {
    "name": "tiny",
    "summary": "A tiny experiment",
    "program": "toys.ok",
    "scaling": "strong",
    "matrix": {"layout": ["1x1", "1x2"]},
    "repeat": 1,
    "timeout_seconds": 60,
}
OK = """
    import os
    from argparse import ArgumentParser

    from experiments.events import EventLog


    def main():
        parser = ArgumentParser()
        parser.add_argument("--epochs", type=int, default=1)
        parser.add_argument("--batch-size", type=int, default=8)
        parser.add_argument("--seed", type=int, default=1)
        parser.add_argument("--verbose", action="store_true")
        args = parser.parse_args()
        rank = int(os.environ["RANK"])
        log = EventLog(rank)
        log.start("run_start", host="here", device_name="Toy CPU", threads=1, torch="2.3.1")
        print(f"a foreign line of rank {rank}: [rank0] {args}")
        log.point("global_batch_size", args.batch_size)
        log.point("train_samples", 100)
        log.point("eval_samples", 50)
        for epoch in range(1, args.epochs + 1):
            log.start("epoch_start", epoch_num=epoch, epochs=args.epochs)
            done = {"train_seconds": 1.0 + rank / 4, "samples": 50, "steps": 13, "trained_samples": 100}
            log.stop("epoch_stop", epoch_num=epoch, loss=0.5, loss_hex=(0.5).hex(), **done)
            log.point("eval_accuracy", 0.9, epoch_num=epoch)
        log.point("tracked_stats", {"train_seconds": 1.0 + rank / 4, "final_accuracy": 0.9, "best_accuracy": 0.92})
        log.stop("run_stop", status="success", total_seconds=2.0)


    if __name__ == "__main__":
        main()
"""


@dataclass
class Ended:
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def snapshot(self) -> str:
        """Exit code, stdout and stderr together."""
        return f"exit {self.code}\n--- stdout\n{self.stdout}--- stderr\n{self.stderr}"


@dataclass
class Project:
    """A folder with `experiments/`, programs and definitions, like this repository's."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)

    def program(self, name: str, source: str) -> Path:
        path = self.root.joinpath("experiments", *name.split(".")).with_suffix(".py")
        path.parent.mkdir(exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(textwrap.dedent(source).lstrip(), "utf-8")
        return path

    def define(self, text: str = "", /, *, name: str = "tiny", **changes: Any) -> Path:
        """Write a definition: a text as it is, or the minimal one with changes; None leaves a key out."""
        path = self.root / "experiments" / f"{name}.yaml"
        if not text:
            values = {**MINIMAL, "name": name, **changes}
            # JSON is YAML; one key a line, so that a line number means something.
            lines = [f"{key}: {json.dumps(value)}" for key, value in values.items() if value is not None]
            text = "\n".join(lines) + "\n"
        path.write_text(text, "utf-8")
        return path

    def environment(self, extra: dict[str, str] | None = None) -> dict[str, str]:
        return {**os.environ, **self.env, **(extra or {})}

    def runner(
        self,
        *words: str | Path,
        env: dict[str, str] | None = None,
        only_env: dict[str, str] | None = None,
        within: float = 120,
    ) -> Ended:
        environment = self.environment(env) if only_env is None else only_env
        command = [RUNNER, *map(str, words)]
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, timeout=within, check=False)
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *words: str | Path, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """Start the command in a process group of its own, as a shell does."""
        return subprocess.Popen(
            [RUNNER, *map(str, words)],
            cwd=self.root,
            env=self.environment(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def results(self) -> Path:
        return self.root / "results"

    def runs(self, experiment: str = "tiny") -> list[Path]:
        """All run folders, the oldest first."""
        found = [path.parent for path in (self.results / experiment).glob("*/run.json")]
        return sorted(found, key=lambda path: (self.record(path)["launch"]["started"], path.name))

    def record(self, folder: Path | None = None) -> dict[str, Any]:
        if folder is None:
            (folder,) = self.runs()
        record: dict[str, Any] = json.loads((folder / "run.json").read_bytes())
        return record

    def written(self) -> set[str]:
        """Every path below the project, to see that nothing was written."""
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if "__pycache__" not in path.parts}

    def snapshot(self, ended: Ended) -> str:
        """The outcome of a command with everything filtered out that differs from time to time."""
        text = ended.snapshot.replace(str(self.root), "<project>")
        text = text.replace(json.dumps(str(self.root), ensure_ascii=False), '"<project>"')
        text = re.sub(r"\d{8}T\d{6}Z-(\w+)-[0-9a-f]{8}", r"<time>-\1-<id>", text)
        return re.sub(r"CPU, \d+ cores", "CPU, <n> cores", text)


def make_project(root: Path, cache: Path) -> Project:
    (root / "experiments").mkdir(parents=True)
    (root / "experiments" / "__init__.py").touch()
    shutil.copy(ROOT / "experiments" / "events.py", root / "experiments" / "events.py")
    project = Project(root, {"XDG_CACHE_HOME": str(cache), "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200"})
    project.program("toys.ok", OK)
    project.define()
    return project


@pytest.fixture
def weird_path(tmp_path: Path) -> Path:
    path = tmp_path / WEIRD
    path.mkdir()
    return path


@pytest.fixture
def project(weird_path: Path, tmp_path: Path) -> Project:
    return make_project(weird_path, tmp_path / "cache")


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose one experiment has been run at 1x1 and 1x2; not to be changed."""
    base = tmp_path_factory.mktemp("finished")
    project = make_project(base / WEIRD, base / "cache")
    project.define(matrix={"layout": ["1x1", "1x2"]})
    ended = project.runner("run", "tiny")
    assert ended.code == 0, ended.snapshot
    return project


_NUMBERS = itertools.count(1)


def make_launch(**changes: Any) -> Launch:
    """What is known before a run of the minimal definition."""
    number = next(_NUMBERS)
    values: dict[str, Any] = {
        "schema": SCHEMA,
        "id": f"20261121T0000{number:02}Z-local-{number:08x}",
        "experiment": "tiny",
        "target": "local",
        "layout": "1x1",
        "axes": {},
        "repeat": 1,
        "repeats": 3,
        "program": "toys.ok",
        "args": {"epochs": 1, "seed": 1},
        "scaling": "strong",
        "measure": "train_seconds",
        "device": "cpu",
        "timeout_seconds": 60.0,
        "definition": {**MINIMAL, "published": None},
        "definition_sha256": "d" * 64,
        "argv": [["torchrun", "-m", "experiments.toys.ok"]],
        "started": f"2026-11-21T00:00:00.{number:03}+00:00",
        "runner": {"version": "0.1.0", "host": "here", "pid": 1, "pid_started": 0.0},
        "host": {"name": "here", "cpu": "Toy CPU", "cores": 2, "gpus": []},
        "code": {"sources_sha256": "c" * 64},
    }
    return Launch(**{**values, **changes})


def make_lines(rank: int, seconds: float, accuracy: float = 0.9, **start: Any) -> bytes:
    """What a rank of a well-behaved program prints."""
    facts = {
        "host": "here",
        "device_name": "Toy CPU",
        "torch": "2.3.1",
        "python": "3.11.7",
        "threads": 1,
        "nccl": None,
        **start,
    }
    work = {"epoch_num": 1, "trained_samples": 100, "samples": 100, "steps": 13, "train_seconds": seconds}
    stats = {"train_seconds": seconds, "final_accuracy": accuracy, "best_accuracy": accuracy}
    told: list[tuple[str, Any, dict[str, Any]]] = [
        ("run_start", None, facts),
        ("global_batch_size", 8, {}),
        ("eval_samples", 1_000, {}),
        ("dataset", "toys", {"data_sha256": "e" * 64}),
        ("epoch_stop", None, work),
        ("eval_accuracy", accuracy, {"epoch_num": 1}),
        ("tracked_stats", stats, {}),
        ("run_stop", None, {"status": "success"}),
    ]
    events = (
        {
            "time_ms": 1_000 + 10 * number,
            "key": key,
            "value": value,
            "metadata": {**fields, "rank": rank, "seq": number},
        }
        for number, (key, value, fields) in enumerate(told)
    )
    return b"".join(b"\n:::MLLOG " + json.dumps(event).encode() + b"\n" for event in events)


def make_run(
    results: Path,
    seconds: float = 10.0,
    *,
    stdout: dict[int, bytes] | None = None,
    outcome: Outcome | None = None,
    **changes: Any,
) -> RunFolder:
    """Keep a run as the runner does: raw files, outcome, and the record that is parsed from them."""
    accuracy, start = changes.pop("accuracy", 0.9), changes.pop("start", {})
    launch = make_launch(**changes)
    layout = Layout.parse(launch.layout)
    folder = begin(results, launch, "{}", "")
    for rank in range(layout.world_size):
        node = max(node for node in range(layout.nodes) if layout.first_rank(node) <= rank)
        text = make_lines(rank, seconds, accuracy, **start) if stdout is None else stdout.get(rank, b"")
        (folder.raw / f"node{node}-rank{rank}.stdout").write_bytes(text)
    exits = [NodeExit(node, 0) for node in range(layout.nodes)]
    outcome = outcome or Outcome(ended="2026-11-21T00:01:00+00:00", wall_seconds=seconds + 2, exits=exits)
    folder.keep_outcome(outcome)
    folder.finish(collect(folder, launch, outcome))
    return folder


class Make:
    """The makers of this file, for tests to call."""

    launch = staticmethod(make_launch)
    lines = staticmethod(make_lines)
    run = staticmethod(make_run)


@pytest.fixture(scope="session")
def make() -> Make:
    return Make()
