"""Runs that are slowed down on purpose, and clean ones: what `runner explain` names has to be right.

    python -m bench.slowdowns [--loader N] [--quota N] [--link N] [--clean N]

Each run has two processes. `loader`: 30 ms of sleep before each batch of rank 1. `quota`: half a core for node 1, by
its control group. `link`: 50 Mbit/s for what leaves node 1, by `tc tbf` in a network namespace. Both need root.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bench.timing import ROOT, tool
from runner.records.finalize import reparse
from runner.records.folder import RunFolder
from runner.report.explain.times import times_of
from runner.report.explain.verdict import Cause, causes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.records.schema import Record

CGROUPS = Path("/sys/fs/cgroup")
DEFINITION = """\
name: slowdown
summary: What slows it down?
program: {program}
scaling: strong
repeat: 1
timeout_seconds: 300
args: {{dataset: digits, epochs: {epochs}, batch_size: {batch}, seed: 1, peak_milliseconds: 20}}
matrix: {{layout: [{layout}]}}
"""
SLOW_LOADER = """\
import os
import time

from experiments.mnist import data, ddp

batches_of = data.Batches.epoch


def epoch(self, number):
    for batch in batches_of(self, number):
        time.sleep(0.03 if os.environ["RANK"] == "1" else 0)
        yield batch


data.Batches.epoch = epoch
if __name__ == "__main__":
    ddp.main()
"""


def clean(folder: Path) -> list[Cause]:
    """Run two processes that nothing slows down."""
    return _run(folder, "mnist.ddp", 4, 64)


def loader(folder: Path) -> list[Cause]:
    """Let rank 1 wait 30 ms for each of its batches."""
    (folder / "slow_loader.py").write_text(SLOW_LOADER)
    return _run(folder, "slow_loader.py", 3, 64)


def quota(folder: Path) -> list[Cause]:
    """Give node 1 half a core."""
    with limited_to(float(os.environ.get("KIT_SLOWDOWN_CORES", "0.5"))) as group:
        text = DEFINITION.format(program="mnist.ddp", epochs=4, batch=256, layout="2x1")
        return _nodes(folder, text, "127.0.0.1", [[], _in_group(group)], {"GLOO_SOCKET_IFNAME": "lo"})


def link(folder: Path) -> list[Cause]:
    """Let 50 Mbit/s leave node 1."""
    with two_hosts("50mbit") as hosts:
        text = DEFINITION.format(program="mnist.ddp", epochs=3, batch=256, layout="2x1")
        prefixes = [["ip", "netns", "exec", host] for host in hosts]
        return _nodes(folder, text, "10.77.9.1", prefixes, {"GLOO_SOCKET_IFNAME": "eth0"})


KINDS: dict[str, Callable[[Path], list[Cause]]] = {"clean": clean, "loader": loader, "quota": quota, "link": link}


def is_right(kind: str, found: list[Cause]) -> bool:
    """Whether the first cause is the one that was injected, on rank 1; nothing is found in a clean run."""
    if kind == "clean":
        return not found
    return bool(found) and found[0].kind == kind and found[0].ranks == (1,)


def _run(folder: Path, program: str, epochs: int, batch: int) -> list[Cause]:
    project(folder)
    definition = folder / "experiments" / "slowdown.yaml"
    definition.write_text(DEFINITION.format(program=program, epochs=epochs, batch=batch, layout="1x2"))
    _call([[tool("runner"), "run", "slowdown", "--device", "cpu"]], folder, {})
    return _causes(folder)


def _nodes(folder: Path, text: str, master: str, prefixes: list[list[str]], variables: dict[str, str]) -> list[Cause]:
    """Start each node behind its own prefix, and make the record of the run."""
    project(folder)
    (folder / "experiments" / "slowdown.yaml").write_text(text)
    words = [tool("runner"), "node", "slowdown", "--layout", "2x1", "--device", "cpu", "--master", master, "--node"]
    _call([[*prefix, *words, str(node)] for node, prefix in enumerate(prefixes)], folder, variables)
    (run,) = (folder / "results" / "slowdown").iterdir()
    reparse(run)
    return _causes(folder)


def project(folder: Path) -> None:
    """Make a folder a project that has the kit's programs."""
    (folder / "experiments").mkdir()
    (folder / "results").mkdir()
    (folder / "runner.toml").write_text('definitions = "experiments"\n')
    for name in ("mnist", "__init__.py"):
        if (ROOT / "experiments" / name).exists():
            (folder / "experiments" / name).symlink_to(ROOT / "experiments" / name)


def _call(commands: list[list[str]], folder: Path, variables: dict[str, str]) -> None:
    """Start commands together, and wait for all; SystemExit with the last words of one that fails."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    with ExitStack() as stack:
        logs = [stack.enter_context(tempfile.TemporaryFile()) for _ in commands]
        started = [
            subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
            for command, log in zip(commands, logs, strict=True)
        ]
        codes = [process.wait() for process in started]
        for command, code, log in zip(commands, codes, logs, strict=True):
            if code:
                log.seek(0)
                sys.exit(f"{' '.join(command)} exited with {code}: {log.read()[-2000:].decode(errors='replace')}")


def record_of(folder: Path) -> Record:
    """Read the record of the only run of a project."""
    (run,) = (folder / "results" / "slowdown").iterdir()
    return RunFolder(run).read()


def _causes(folder: Path) -> list[Cause]:
    record = record_of(folder)
    times = times_of(record)
    if record.status != "completed" or times is None:
        sys.exit(f"{folder}: {record.status}: {record.reason or 'it does not say where the time went'}")
    return causes(times, record)


@contextmanager
def limited_to(cores: float) -> Iterator[Path]:
    """Make a control group with a quota of so many cores; version 1 or 2, whichever is there."""
    first = (CGROUPS / "cpu").is_dir()
    group = (CGROUPS / "cpu" if first else CGROUPS) / f"kit-slowdown-{os.getpid()}"
    group.mkdir()
    try:
        if first:
            (group / "cpu.cfs_period_us").write_text("100000")
            (group / "cpu.cfs_quota_us").write_text(f"{100_000 * cores:.0f}")
        else:
            (group / "cpu.max").write_text(f"{100_000 * cores:.0f} 100000")
        yield group
    finally:
        with suppress(OSError):
            group.rmdir()


def _in_group(group: Path) -> list[str]:
    return ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]


@contextmanager
def two_hosts(rate: str) -> Iterator[list[str]]:
    """Make two network namespaces, 10.77.9.1 and 10.77.9.2, with a wire; slow is what leaves the second."""
    names = [f"kit{os.getpid()}a", f"kit{os.getpid()}b"]
    try:
        for name in names:
            _ip("netns", "add", name)
        _ip("link", "add", "eth0", "netns", names[0], "type", "veth", "peer", "name", "eth0", "netns", names[1])
        for number, name in enumerate(names, 1):
            _ip("-n", name, "addr", "add", f"10.77.9.{number}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                _ip("-n", name, "link", "set", device, "up")
        tbf = ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "64k", "latency", "50ms"]
        subprocess.run(["ip", "netns", "exec", names[1], *tbf], check=True)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def why_not(kind: str) -> str | None:
    """Say what a kind of run lacks on this machine."""
    if kind in ("quota", "link") and os.geteuid() != 0:
        return "it needs root"
    if kind == "link" and not (shutil.which("ip") and shutil.which("tc")):
        return "it needs ip and tc (iproute2)"
    if kind == "quota" and not os.access(CGROUPS / "cpu" if (CGROUPS / "cpu").is_dir() else CGROUPS, os.W_OK):
        return "it needs control groups that can be written"
    return None


def main() -> None:
    """Make so many runs of each kind, and count how often the right rank and cause were named."""
    parser = argparse.ArgumentParser(prog="bench.slowdowns", description=__doc__)
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=int, default=0, metavar="N")
    wanted = {kind: count for kind, count in vars(parser.parse_args()).items() if count}
    for kind, count in (wanted or {"loader": 20, "quota": 20, "link": 20, "clean": 50}).items():
        if why := why_not(kind):
            print(f"slowdowns: {kind}: not tried: {why}")
            continue
        right, wrong = 0, Counter[str]()
        for _ in range(count):
            with tempfile.TemporaryDirectory() as folder:
                found = KINDS[kind](Path(folder))
            if is_right(kind, found):
                right += 1
            else:
                wrong["; ".join(f"ranks {one.ranks}: {one.kind}: {one.figures}" for one in found) or "nothing"] += 1
        print(f"slowdowns: {kind}: right in {right} of {count}", *wrong.items(), sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
