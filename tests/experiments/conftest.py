"""Fixtures that start programs, each run shared by all tests that look at it."""

import json
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from runner.core.ports import free_port
from tests.experiments import tiny_bert
from tests.support.fork_server import command
from tests.support.patience import patient

Launch = Callable[..., Any]
ROOT = Path(__file__).parents[2]
MARK = b":::MLLOG "
GRACE_SECONDS = 10.0
"""Time that other ranks get after one has failed; torchrun's own is 30."""
SHORT_PEAK = ("--peak-milliseconds", "20")
"""Replaces the programs' half a second."""
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
        lines = self.stdout.split(b"\n")
        return [json.loads(line[len(MARK) :]) for line in lines if line.startswith(MARK)]

    def all(self, key: str) -> list[dict[str, Any]]:
        """Return the events with this key, by rank."""
        found = [event for event in self.events if event["key"] == key]
        return sorted(found, key=lambda event: event["metadata"]["rank"])

    def told(self, key: str, fact: str = "") -> list[Any]:
        """Return the metadata of the events with this key, by rank, or one field of it."""
        return [event["metadata"][fact] if fact else event["metadata"] for event in self.all(key)]

    def values(self, key: str) -> list[Any]:
        return [event["value"] for event in self.all(key)]

    @property
    def stats(self) -> Any:
        return self.first("tracked_stats")["value"]

    def first(self, key: str) -> dict[str, Any]:
        return self.all(key)[0]

    @property
    def error(self) -> str:
        """The only error line of a program that failed."""
        assert self.code != 0
        [line] = [line for line in self.stderr.splitlines() if line.startswith("error: ")]
        return line

    @property
    def losses(self) -> list[str]:
        """All reported losses, exact to the last bit."""
        return [event["metadata"]["loss_hex"] for event in self.events if "loss_hex" in event["metadata"]]


def good(ended: Ended) -> Ended:
    """Assert that a program succeeded and that each rank's events are complete and in order."""
    assert ended.code == 0, ended.stderr
    for rank in {event["metadata"]["rank"] for event in ended.events}:
        own = [event for event in ended.events if event["metadata"]["rank"] == rank]
        assert [event["metadata"]["seq"] for event in own] == list(range(len(own)))
        assert (own[0]["key"], own[-1]["key"]) == ("run_start", "run_stop")
        assert own[-1]["metadata"]["status"] == "success"
    return ended


def start(program: list[str], processes: int | None = None, **extra: str) -> Ended:
    """Run a module or file, once for each rank with torchrun's variables, or as one plain process.

    The processes are forked from one that has imported torch. Tests of the launch start a real torchrun.
    """
    own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    environment, place = {**os.environ, **own, **extra}, {}
    if processes is not None:
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "GROUP_RANK": "0"}
        place |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(processes))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:  # opened once: every process appends
        ranks = [
            subprocess.Popen(
                [command("python"), *program],
                cwd=ROOT,
                env={**environment, **place, **({"RANK": str(rank), "LOCAL_RANK": str(rank)} if place else {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
            for rank in range(processes or 1)
        ]
        code = ends(ranks)
        out.seek(0)
        err.seek(0)
        return Ended(code if processes is None else int(code != 0), out.read(), err.read().decode())


def ends(ranks: list[subprocess.Popen[bytes]]) -> int:
    """Wait for all ranks, ending the others after the first failure; return the first exit code that is not 0."""
    code, deadline, running = 0, math.inf, list(ranks)
    try:
        while running and time.monotonic() < deadline:
            for rank in [process for process in running if process.poll() is not None]:
                running.remove(rank)
                if rank.returncode and not code:
                    code, deadline = rank.returncode, time.monotonic() + patient(GRACE_SECONDS)
            time.sleep(0.005)
    finally:
        for rank in running:
            rank.kill()
            rank.wait()
    return code


@pytest.fixture(scope="session")
def plain() -> Callable[..., Ended]:
    """Start `experiments.<program>` with these arguments; equal calls share a run."""

    @cache
    def once(program: str, processes: int | None, *args: str) -> Ended:
        return start(["-m", f"experiments.{program}", *args], processes)

    return once


@pytest.fixture(scope="session")
def train(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Ended]:
    """Start `experiments.<program>` on the digits and keep rank 0's parameters; equal calls share a run.

    `sabotage` names a function of the program's module to disable.
    """

    @cache
    def once(program: str, processes: int | None, *args: str, sabotage: str = "") -> Ended:
        path = tmp_path_factory.mktemp("kept") / "parameters.pt"
        words = [KEEP, "--dataset", "digits", *SHORT_PEAK, *args]
        ended = start(words, processes, KEEP=str(path), PROGRAM=program, SABOTAGE=sabotage)
        if path.exists():
            ended.parameters = torch.load(path, weights_only=True)
        return ended

    return once


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with sentences that can only be memorised, a BERT of two layers, and one with dropout.

    402 = 41 for the test + 361 for training. Only a unique name in each sentence tells its label.
    """
    folder = tmp_path_factory.mktemp("a data folder")
    tiny_bert.make(folder)
    return folder


@pytest.fixture(scope="session")
def launch_bert(plain: Callable[..., Ended], reviews: Path) -> Callable[..., Ended]:
    return lambda program, processes, *args: plain(program, processes, "--data-dir", str(reviews), *SHORT_PEAK, *args)
