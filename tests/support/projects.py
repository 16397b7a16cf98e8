"""Projects for tests, in folders with awkward names, and the command `runner`."""

import json
import os
import pty
import re
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.definitions import experiment as definition
from runner.definitions.choices import Selection
from runner.definitions.plan import Run, make_plan
from tests.support import fork_server

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
    "timeout_seconds": 600,
}
OK = """
    import os
    from argparse import ArgumentParser

    from trainkit.event_log import EventLog


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
        log.stop("run_stop", status="success")


    if __name__ == "__main__":
        main()
"""


@dataclass
class Ended:
    """The outcome of a command."""

    code: int
    stdout: str
    stderr: str

    @property
    def snapshot(self) -> str:
        """Exit code, stdout and stderr together."""
        return f"exit {self.code}\n--- stdout\n{self.stdout}--- stderr\n{self.stderr}"


def complete(command: Sequence[str | Path], cwd: Path | None = None, env: dict[str, str] | None = None) -> Ended:
    """Run a command to its end."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, check=False)
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


@dataclass
class Project:
    """A folder with `experiments/`, programs and definitions."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)
    forked: bool = True
    """Whether commands are forked from a process that has imported torch."""

    @property
    def command(self) -> str:
        return fork_server.command("runner") if self.forked else RUNNER

    def program(self, name: str, source: str) -> Path:
        path = self.root.joinpath("experiments", *name.split(".")).with_suffix(".py")
        path.parent.mkdir(exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(textwrap.dedent(source).lstrip(), "utf-8")
        return path

    def define(self, text: str = "", /, *, name: str = "tiny", **changes: Any) -> Path:
        """Write a definition: a text, or the minimal one with changes; None omits a key."""
        path = self.root / "experiments" / f"{name}.yaml"
        if not text:
            values = {**MINIMAL, "name": name, **changes}
            # JSON is YAML; one key per line gives errors a line number.
            lines = [f"{key}: {json.dumps(value)}" for key, value in values.items() if value is not None]
            text = "\n".join(lines) + "\n"
        path.write_text(text, "utf-8")
        return path

    def planned(self, device: str = "cpu", **changes: Any) -> list[Run]:
        """Return the runs of the minimal definition with changes."""
        experiment = definition.load(self.define(**changes), self.root)
        return list(make_plan(experiment, Selection(device=device)).runs)

    def environment(self, extra: dict[str, str] | None = None) -> dict[str, str]:
        return {**os.environ, **self.env, **(extra or {})}

    def runner(self, *words: str | Path, env: dict[str, str] | None = None) -> Ended:
        return complete([self.command, *map(str, words)], self.root, self.environment(env))

    def refused(self, *words: str | Path, env: dict[str, str] | None = None) -> str:
        """Return the one-line error of a wrong request: exit code 2, and nothing on stdout."""
        done = self.runner(*words, env=env)
        assert (done.code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.snapshot
        return done.stderr

    def on_a_terminal(self, *words: str) -> tuple[int, str]:
        """Run the command on a pseudo-terminal; return its exit code and output."""
        parent, child = pty.openpty()
        env = self.environment({"TERM": "xterm"})
        process = subprocess.Popen([self.command, *words], cwd=self.root, env=env, stdout=child, stderr=child)
        os.close(child)
        shown = b""
        with suppress(OSError):  # the other end was closed
            while chunk := os.read(parent, 65_536):
                shown += chunk
        os.close(parent)
        return process.wait(), shown.decode()

    def start(self, *words: str | Path, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """Start the command in its own session, as a shell does."""
        return subprocess.Popen(
            [self.command, *map(str, words)],
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
        """Return all run folders, oldest first."""
        found = (path.parent for path in (self.results / experiment).glob("*/run.json"))
        return sorted(found, key=lambda path: (self.record(path)["launch"]["started"], path.name))

    def record(self, folder: Path | None = None) -> dict[str, Any]:
        if folder is None:
            (folder,) = self.runs()
        return dict(json.loads((folder / "run.json").read_bytes()))

    def written(self) -> set[str]:
        """Return every path in the project, to check that nothing was written."""
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if "__pycache__" not in path.parts}

    def snapshot(self, ended: Ended) -> str:
        """Return the outcome of a command without anything that varies."""
        text = ended.snapshot.replace(str(self.root), "<project>")
        text = text.replace(json.dumps(str(self.root), ensure_ascii=False), '"<project>"')
        text = re.sub(r"\d{8}T\d{6}Z-(\w+)-[0-9a-f]{8}", r"<time>-\1-<id>", text)
        return re.sub(r"CPU, \d+ cores", "CPU, <n> cores", text)


def make_project(root: Path, cache: Path, *, forked: bool = True) -> Project:
    (root / "experiments").mkdir(parents=True)
    (root / "experiments" / "__init__.py").touch()
    (root / "runner.toml").touch()
    env = {"XDG_CACHE_HOME": str(cache), "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200", "PYTHONPATH": str(ROOT)}
    project = Project(root, env, forked=forked)
    project.program("toys.ok", OK)
    project.define()
    return project
