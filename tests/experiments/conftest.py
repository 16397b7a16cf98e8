"""Programs started as people start them, once for all tests that look at the same run."""

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from runner.definitions.data import environment, prepare_command
from tests.experiments import tiny_bert
from tests.support.fork_server import ForkServer

ROOT = Path(__file__).parents[2]
MARK = b":::MLLOG "
KEEP = str(Path(__file__).parent / "keep_parameters.py")


@dataclass
class Ended:
    """A program that has ended."""

    code: int
    stdout: bytes
    stderr: str
    parameters: dict[str, torch.Tensor] = field(default_factory=dict)

    @property
    def events(self) -> list[dict[str, Any]]:
        """All events, in the order of the lines."""
        lines = self.stdout.split(b"\n")
        return [json.loads(line[len(MARK) :]) for line in lines if line.startswith(MARK)]

    def all(self, key: str) -> list[dict[str, Any]]:
        """The events with this key, by rank."""
        found = [event for event in self.events if event["key"] == key]
        return sorted(found, key=lambda event: event["metadata"]["rank"])

    def first(self, key: str) -> dict[str, Any]:
        """The first event with this key, of the lowest rank."""
        return self.all(key)[0]

    @property
    def losses(self) -> list[str]:
        """Every loss told, to the last bit."""
        metadata = [event["metadata"] for event in self.events]
        return [data["loss_hex"] for data in metadata if "loss_hex" in data]


@cache
def server() -> ForkServer:
    """The process from which programs are forked; it ends with the tests."""
    one = ForkServer()
    atexit.register(one.close)
    return one


def start(program: list[str], processes: int | None, extra: dict[str, str]) -> Ended:
    """Run a module or file, in so many processes as torchrun would start, or as one plain process."""
    code, stdout, stderr = server().run(program, processes, extra)
    return Ended(code, stdout, stderr.decode())


def start_with_torchrun(program: list[str], processes: int | None, extra: dict[str, str]) -> Ended:
    """Run a module or file for real: under torchrun, or, without a number of processes, under plain Python."""
    own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    launcher = [sys.executable]
    if processes is not None:
        launcher += ["-m", "torch.distributed.run", "--standalone", "--monitor-interval", "0.1"]
        launcher += ["--nproc-per-node", str(processes)]
    words, environment = launcher + program, {**os.environ, **own, **extra}
    ended = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, timeout=120, check=False)
    return Ended(ended.returncode, ended.stdout, ended.stderr.decode())


def prepare_program(family: str, *words: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Prepare data as `runner prepare` does."""
    command = prepare_command(ROOT, family, [str(word) for word in words])
    everything = {**environment(ROOT), **(env or {})}
    return subprocess.run(command, env=everything, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def weird_path(tmp_path: Path) -> Path:
    path = tmp_path / 'it\'s a "wéird" pàth, 目 %20 #1?'
    path.mkdir()
    return path


@pytest.fixture(scope="session")
def launch() -> Callable[..., Ended]:
    """Start `experiments.<program>` with these arguments on the digits; equal calls share a run."""

    @cache
    def once(program: str, processes: int | None, *args: str) -> Ended:
        whole = ["-m", f"experiments.{program}", "--dataset", "digits", *args]
        return start(whole, processes, {})

    return once


@pytest.fixture(scope="session")
def plain() -> Callable[..., Ended]:
    """Start `experiments.<program>` with these arguments alone; `env` is added to its environment."""

    @cache
    def once(program: str, processes: int | None, *args: str, env: tuple[tuple[str, str], ...] = ()) -> Ended:
        return start(["-m", f"experiments.{program}", *args], processes, dict(env))

    return once


@pytest.fixture(scope="session")
def train(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Ended]:
    """Start a program as `launch` does, and keep the parameters that its rank 0 ended with.

    `sabotage` names a function of the program's module that is to do nothing.
    """

    @cache
    def once(program: str, processes: int | None, *args: str, sabotage: str = "") -> Ended:
        path = tmp_path_factory.mktemp("kept") / "parameters.pt"
        extra = {"KEEP": str(path), "PROGRAM": program, "SABOTAGE": sabotage}
        ended = start([KEEP, "--dataset", "digits", *args], processes, extra)
        if path.exists():
            ended.parameters = torch.load(path, weights_only=True)
        return ended

    return once


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with sentences that can only be learnt by heart, a BERT of two layers, and one with dropout.

    402 = 41 for the test + 361 for training. Each sentence has a name of its own; nothing else tells its label.
    """
    folder = tmp_path_factory.mktemp("a data folder")
    tiny_bert.make(folder)
    return folder


@pytest.fixture(scope="session")
def launch_bert(reviews: Path) -> Callable[..., Ended]:
    """Start `experiments.<program>` with these arguments on the tiny reviews; equal calls share a run."""

    @cache
    def once(program: str, processes: int | None, *args: str) -> Ended:
        return start(["-m", f"experiments.{program}", "--data-dir", str(reviews), *args], processes, {})

    return once
