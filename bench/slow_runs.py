"""Run two real processes, undisturbed or with one deliberate slowdown."""

import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from bench.timing import ROOT, tool
from runner.records.folder import RunFolder
from runner.records.parse import reparse
from runner.records.schema import Record
from runner.report.bottlenecks import Cause, causes
from runner.report.times import times_of

CGROUPS = Path("/sys/fs/cgroup")
CORES, PERIOD = 0.5, 100_000
"""Node 1's quota in cores, and the quota's period in microseconds."""
RATE = "50mbit"
NUMBERS = itertools.count()
"""Numbers for resources on this machine, because several runs can be in progress at once."""
DEFINITION = """\
name: slowdown
summary: What slows it down?
program: {program}
scaling: strong
repeat: 1
timeout_seconds: 300
args: {{dataset: digits, epochs: {epochs}, batch-size: {batch}, seed: 1, peak-milliseconds: 20}}
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
HALF_A_CORE = """\
import os
from pathlib import Path

from experiments.mnist import ddp

if __name__ == "__main__":
    if os.environ["RANK"] == "1":  # now, because the start would take twice as long
        Path(os.environ["QUOTA_FILE"]).write_text(os.environ["QUOTA"])
    ddp.main()
"""


class RunFailedError(Exception):
    """A run that did not end as expected."""


def clean(folder: Path) -> Record:
    """Run two processes without a slowdown."""
    return _run(folder, "mnist.ddp", 4, 64)


def loader(folder: Path) -> Record:
    """Make rank 1 wait 30 ms for each of its batches."""
    (folder / "slow_loader.py").write_text(SLOW_LOADER)
    return _run(folder, "slow_loader.py", 3, 64)


def quota(folder: Path, cores: float = CORES) -> Record:
    """Limit node 1 to half a core after its program was loaded."""
    (folder / "half_a_core.py").write_text(HALF_A_CORE)
    with control_group() as (group, quota_file):
        text = DEFINITION.format(program="half_a_core.py", epochs=3, batch=64, layout="2x1")
        in_group = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
        variables = {
            "GLOO_SOCKET_IFNAME": "lo",
            "QUOTA_FILE": str(quota_file),
            "QUOTA": f"{PERIOD * cores:.0f}",  # of 100 ms, a group's default period
        }
        return _nodes(folder, text, "127.0.0.1", [[], in_group], variables)


def link(folder: Path) -> Record:
    """Limit node 1 to sending 50 Mbit/s."""
    with two_hosts(RATE) as hosts:
        text = DEFINITION.format(program="mnist.ddp", epochs=2, batch=512, layout="2x1")
        prefixes = [["ip", "netns", "exec", host] for host in hosts]
        return _nodes(folder, text, "10.77.9.1", prefixes, {"GLOO_SOCKET_IFNAME": "eth0"})


KINDS: dict[str, Callable[[Path], Record]] = {"clean": clean, "loader": loader, "quota": quota, "link": link}


def found_in(record: Record) -> list[Cause]:
    """Return the causes named for a run; RunFailedError if it did not complete, or did not report its times."""
    times = times_of(record)
    if record.status != "completed" or times is None:
        raise RunFailedError(f"{record.status}: {record.reason or 'it does not report where the time went'}")
    return causes(times, record)


def is_right(kind: str, found: list[Cause]) -> bool:
    """Return whether the only cause is the injected one, on rank 1; in a clean run, whether there is none."""
    return [(finding.kind, finding.ranks) for finding in found] == ([] if kind == "clean" else [(kind, (1,))])


def why_not(kind: str) -> str | None:
    """Return why this machine cannot make a kind of run; None if it can."""
    if kind in ("quota", "link") and os.geteuid() != 0:
        return "it needs root"
    if kind == "link" and not (shutil.which("ip") and shutil.which("tc")):
        return "it needs ip and tc (iproute2)"
    try:
        with ExitStack() as stack:
            if kind == "quota":
                stack.enter_context(control_group())[1].write_text(str(PERIOD))
            elif kind == "link":
                stack.enter_context(two_hosts(RATE))
    except (OSError, subprocess.CalledProcessError) as error:
        return f"it cannot be made here: {error}"
    return None


def _run(folder: Path, program: str, epochs: int, batch: int) -> Record:
    _project(folder, DEFINITION.format(program=program, epochs=epochs, batch=batch, layout="1x2"))
    _call([[tool("runner"), "run", "slowdown", "--device", "cpu"]], folder, {})
    return RunFolder(_only_run(folder)).read()


def _nodes(folder: Path, text: str, master: str, prefixes: list[list[str]], variables: dict[str, str]) -> Record:
    _project(folder, text)
    words = [tool("runner"), "node", "slowdown", "--layout", "2x1", "--device", "cpu", "--master", master, "--node"]
    _call([[*prefix, *words, str(node)] for node, prefix in enumerate(prefixes)], folder, variables)
    reparse(_only_run(folder))
    return RunFolder(_only_run(folder)).read()


def _project(folder: Path, definition: str) -> None:
    (folder / "experiments").mkdir()
    (folder / "results").mkdir()
    (folder / "runner.toml").write_text('definitions = "experiments"\n')
    (folder / "experiments" / "slowdown.yaml").write_text(definition)
    for name in ("mnist", "__init__.py"):
        (folder / "experiments" / name).symlink_to(ROOT / "experiments" / name)


def _only_run(folder: Path) -> Path:
    (run,) = (folder / "results" / "slowdown").iterdir()
    return run


def _call(commands: list[list[str]], folder: Path, variables: dict[str, str]) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PET_MONITOR_INTERVAL": "0.1", **variables}
    with ExitStack() as stack:
        logs = [stack.enter_context(tempfile.TemporaryFile()) for _ in commands]
        started = [
            stack.enter_context(subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log))
            for command, log in zip(commands, logs, strict=True)
        ]
        for command, process, log in zip(commands, started, logs, strict=True):
            if code := process.wait():
                log.seek(0)
                said = log.read()[-2000:].decode(errors="replace")
                raise RunFailedError(f"{' '.join(command)} exited with {code}: {said}")


@contextmanager
def control_group() -> Iterator[tuple[Path, Path]]:
    """Create a cgroup of version 1 or 2; yield its folder and its quota file."""
    first = (CGROUPS / "cpu").is_dir()
    group = (CGROUPS / "cpu" if first else CGROUPS) / f"kit-slowdown-{os.getpid()}-{next(NUMBERS)}"
    group.mkdir()
    try:
        yield group, group / ("cpu.cfs_quota_us" if first else "cpu.max")
    finally:
        with suppress(OSError):
            group.rmdir()


@contextmanager
def two_hosts(rate: str) -> Iterator[list[str]]:
    """Create two connected network namespaces, 10.77.9.1 and 10.77.9.2; the second sends at a limited rate."""
    number = next(NUMBERS)
    names = [f"kit{os.getpid()}-{number}{host}" for host in "ab"]
    try:
        for name in names:
            _ip("netns", "add", name)
        _ip("link", "add", "eth0", "netns", names[0], "type", "veth", "peer", "name", "eth0", "netns", names[1])
        for last, name in enumerate(names, 1):
            _ip("-n", name, "addr", "add", f"10.77.9.{last}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                _ip("-n", name, "link", "set", device, "up")
        tbf = ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "64k", "latency", "50ms"]
        _ip("netns", "exec", names[1], *tbf)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
