"""Ctrl-C at any moment of a command: exit code 130 and at most one line, never a traceback."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.launches import until
from tests.support.projects import Project
from tests.support.slow import slow_but

pytestmark = pytest.mark.real_processes

DRY_RUN = ["run", "tiny", "--dry-run"]

STARTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
from runner.cli import main
sys.argv = ["runner", *sys.argv[1:]]

def signal_(number, handler, real=signal.signal):  # the first thing that main does
    signal.signal = real
    real(number, handler)
    print("started", file=sys.stderr, flush=True)

signal.signal = signal_
main()
"""


@pytest.mark.parametrize("words", slow_but([DRY_RUN], [["plan"], DRY_RUN]), ids=" ".join)
def test_ctrl_c_in_the_first_half_second_is_one_line_and_never_a_traceback(finished: Project, words: list[str]) -> None:
    codes = set()
    for number in range(10):
        process = subprocess.Popen(
            [sys.executable, "-c", STARTED, *words],
            cwd=finished.root,
            env=finished.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stderr
        assert process.stderr.readline() == "started\n"  # Python itself has started
        time.sleep(0.002 + number * 0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate()
        said = re.sub("^project .*\n", "", said)  # from a `plan` that has done its work
        codes.add(process.returncode)
        # At its very end Python restores the default action of SIGINT, which a shell shows as 130.
        assert (process.returncode, said) in ((130, "interrupted\n"), (-signal.SIGINT, ""), (0, ""))
    assert 130 in codes


PREPARE = """
import os, sys, time

try:
    print(os.getpid(), file=sys.stderr, flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    print("cleaned up", file=sys.stderr)
    sys.exit(1)
"""


@pytest.mark.parametrize(
    ("number", "to_both"), [(signal.SIGINT, True), (signal.SIGINT, False), (signal.SIGTERM, False)]
)
def test_a_signal_to_both_or_to_the_runner_alone_ends_a_family_s_own_program_too(
    project: Project, number: int, *, to_both: bool
) -> None:
    project.program("toys.prepare", PREPARE)
    process = project.start("prepare", "toys")
    assert process.stderr
    child = int(process.stderr.readline())
    os.killpg(process.pid, number) if to_both else process.send_signal(number)
    _, said = process.communicate()
    assert (process.returncode, said.removeprefix("cleaned up\n")) == (130, "interrupted\n")
    assert said.startswith("cleaned up") or not to_both
    until(lambda: not os.path.exists(f"/proc/{child}"))  # noqa: PTH110


WAITS = """
import os, sys, time

print("pid", os.getpid(), file=open("pid", "w"), flush=True)
time.sleep(100_000)
"""


def test_ctrl_c_ends_a_check_and_the_program_it_runs(project: Project, tmp_path: Path) -> None:
    (project.root / "waits.py").write_text(WAITS, "utf-8")
    process = project.start("check", "waits.py", "--seconds", "100000", env={"TMPDIR": str(tmp_path)})
    begun = project.root / "pid"
    until(lambda: begun.exists() and begun.read_text("utf-8").endswith("\n"))
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate()
    assert (process.returncode, said) == (130, "runs: one process\ninterrupted\n")
    assert list(tmp_path.glob("runner-*")) == []
    assert not Path("/proc", begun.read_text("utf-8").split()[1]).exists()
