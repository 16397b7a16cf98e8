"""A copy of this project with odd programs in it, and its two images, built by the real engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.projects import WEIRD, Project

ROOT = Path(__file__).parents[2]
BASES = {"cpu": "CPU_BASE_IMAGE", "gpu": "BASE_IMAGE"}
BUILD_SECONDS = 1800  # a machine that has to pull the base first is in no hurry

PROGRAM = '''
"""{summary}"""

import os
import time
from argparse import ArgumentParser

from trainkit.run import running


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("--{option}", type={kind}, default={default})
    parser.add_argument("--device", choices=["auto", "cuda", "cpu"], default="auto")
    parser.add_argument("--backend", choices=["auto", "nccl", "gloo"], default="auto")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    with running("odd.{name}", args) as run:
        run.join()
        with run.phase("train") as clock:
{body}
        run.log.point("tracked_stats", {{"train_seconds": clock.stop_clock(), "final_loss": 0.5}})


if __name__ == "__main__":
    main()
'''
EXITS = """
            if run.rank == 1:
                os._exit(args.code)
"""
MEMORY = """
            held = []
            while len(held) < args.most:  # so that a limit that is missing does not take the machine down
                held.append(b"x" * 2**26)
"""
SLOW = """
            epoch, end = 0, time.monotonic() + args.seconds
            while time.monotonic() < end:
                epoch += 1
                time.sleep(0.2)
                facts = {"train_seconds": 0.2, "samples": 50, "steps": 1, "trained_samples": 50}
                run.log.stop("epoch_stop", epoch_num=epoch, loss=0.5, loss_hex=(0.5).hex(), **facts)
"""


@dataclass(frozen=True)
class Odd:
    """A program that does one thing, told by one option."""

    summary: str
    body: str
    option: str
    kind: str
    default: str


ODD = {
    "exits": Odd("Rank 1 ends at once with a code, after all have met.", EXITS, "code", "int", "7"),
    "memory": Odd("Take 64 MiB after the other, and use them.", MEMORY, "most", "int", "128"),
    "slow": Odd("Say five times a second that an epoch has ended.", SLOW, "seconds", "float", "1.0"),
}


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Copy the files that are or could be committed, as they are now, and add `experiments/odd/` with definitions."""
    base = tmp_path_factory.mktemp("containers")
    root = base / WEIRD
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():  # one that was removed is still listed
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
    project = Project(root, {"XDG_CACHE_HOME": str(base / "cache"), "COLUMNS": "200"})
    for name, odd in ODD.items():
        project.program(f"odd.{name}", PROGRAM.format(name=name, **{**vars(odd), "body": odd.body.strip("\n")}))
        project.define(
            name=f"odd-{name}",
            program=f"odd.{name}",
            summary=odd.summary,
            matrix={"layout": ["1x2", "1+2"]},
            baseline={"layout": "1x2"},
            timeout_seconds=120,
        )
    return project


@dataclass(frozen=True)
class Images:
    """What was built, and of what."""

    cpu: str
    gpu: str
    base: str
    """The image that `gpu` is built on."""


@pytest.fixture(scope="session")
def image(project: Project) -> Images:
    """Build both targets as a person does, on the bases that the environment names, or the Dockerfile's."""
    names = {target: f"distributed-experiment-kit:{target}" for target in BASES}
    for target, name in names.items():
        build(project.root, target, name)
    default = re.search(r"(?m)^ARG BASE_IMAGE=(\S+)$", (ROOT / "Dockerfile").read_text("utf-8"))
    assert default
    return Images(names["cpu"], names["gpu"], os.environ.get(BASES["gpu"]) or default[1])


def build(root: Path, target: str, name: str, *words: str) -> None:
    for arg in (BASES[target], "TORCH_CPU"):
        if value := os.environ.get(arg):
            words += ("--build-arg", f"{arg}={value}")
    docker("build", "--quiet", "--target", target, "--tag", name, *words, ".", cwd=root, within=BUILD_SECONDS)


def docker(*words: str, cwd: Path | None = None, stdin: str = "", within: float = 300) -> str:
    """Run docker as a person does; what it printed, or a failure with its last words."""
    environment = {**os.environ, "DOCKER_BUILDKIT": "1"}  # Docker's own client of 20.10 builds without it
    done = subprocess.run(
        ["docker", *words],
        cwd=cwd,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
    )
    assert done.returncode == 0, (
        f"docker {' '.join(words)}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    )
    return done.stdout


def inspected(name: str, template: str) -> Any:
    """One fact of an image; the template prints JSON."""
    return json.loads(docker("image", "inspect", "--format", template, name))
