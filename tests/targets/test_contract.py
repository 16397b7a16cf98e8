"""The contract of every target, and a target that is added as one file."""

import os
from pathlib import Path

import pytest

from runner import targets
from runner.core import clock
from runner.core.errors import RequestError
from runner.records.folder import RunFolder, begin
from runner.targets.base import Line
from tests.support.projects import Project
from tests.support.records import Make

IMPURE = (
    "os.getenv os.getcwd os.stat os.scandir os.open os.urandom socket.socket socket.gethostname time.time "
    "time.monotonic subprocess.Popen builtins.open"
)


def refuse(*_: object, **__: object) -> None:
    pytest.fail("a spec touched the clock, the disk or the network")


@pytest.mark.parametrize("name", targets.TARGETS)
def test_a_spec_is_pure(project: Project, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    changes = {"matrix": {"layout": ["1x1", "2+3"]}, "args": {"epochs": 2}}
    planned = [run for device in ("cpu", "cuda") for run in project.planned(device, **changes)]
    target = targets.load(name, ["hosts=h0,h1"] if name == "ssh" else None)
    with monkeypatch.context() as blocked:
        for place in (*(f"runner.core.clock.{name}" for name in clock.__all__), *IMPURE.split()):
            blocked.setattr(place, refuse)
        blocked.setattr(os, "environ", None)
        specs = [target.spec(run) for run in planned]
    texts = [spec.text() for spec in specs]
    assert specs == [target.spec(run) for run in planned]
    assert texts == [target.spec(run).text() for run in planned]
    assert len(set(texts)) == len(planned) == 4
    assert [[node.processes for node in spec.nodes] for spec in specs] == [[1], [2, 3]] * 2
    assert [spec.device for spec in specs] == ["cpu", "cpu", "cuda", "cuda"]
    assert {spec.cwd for spec in specs} == {str(project.root)}
    # An engine's or a cluster's objects are named after the run.
    assert ("0badcafe" in specs[1].text(f"20261121T000000Z-{name}-0badcafe")) == (name != "local")


def test_a_run_that_was_never_started_is_cleaned_up_and_stopped(project: Project, tmp_path: Path, make: Make) -> None:
    (run,) = project.planned(matrix={"layout": ["2x1"]})
    target = targets.load("local")
    folder = begin(tmp_path / "results", make.launch(layout="2x1"), "{}", "")
    target.cleanup(folder)
    handle = target.start(target.spec(run), folder)
    handle.stop()
    handle.stop()
    assert [left.node for left in handle.exits] == [0, 1]


OWN_TARGET = '''
"""Target `shell`: a node is a shell command of this machine."""

import subprocess
from dataclasses import dataclass
from typing import ClassVar

from runner.records.schema import NodeExit
from runner.targets.base import Handle, LaunchSpec, Line, Target, option
from runner.targets.torchrun import node_specs


@dataclass(frozen=True)
class Options:
    times: int = option("how often the words are printed", 1)


class Shell(Target[LaunchSpec]):
    name: ClassVar[str] = "shell"
    summary: ClassVar[str] = "shell commands of this machine"
    Options: ClassVar[type] = Options

    def spec(self, run):
        return LaunchSpec(node_specs(run.cell, "127.0.0.1", run.device), str(run.experiment.root), run.device)

    def preflight(self, spec):
        pass

    def start(self, spec, folder):
        return ShellHandle(spec, self.options.times)

    def cleanup(self, folder):
        pass


class ShellHandle(Handle):
    def __init__(self, spec, times):
        self.spec, self.times, self.codes = spec, times, []

    @property
    def exits(self):
        return [NodeExit(node, code) for node, code in enumerate(self.codes)]

    def lines(self):
        for number, node in enumerate(self.spec.nodes):
            done = subprocess.run(["echo", *node.argv], capture_output=True, check=False)
            self.codes.append(done.returncode)
            yield from [Line(number, 0, done.stdout.rstrip())] * self.times

    def stop(self):
        pass
'''


def test_a_target_is_added_by_one_file_and_runs(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    (tmp_path / "shell_target.py").write_text(OWN_TARGET)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(targets.TARGETS, "shell", "shell_target:Shell")
    (run,) = project.planned(matrix={"layout": ["2x1"]}, args={"epochs": 2})
    target = targets.load("shell", ["times=2"])
    spec = target.spec(run)
    target.preflight(spec)
    assert target.image(spec, print) is None
    handle = target.start(spec, begin(tmp_path / "results", make.launch(layout="2x1"), spec.text("x"), "", spec.file))
    printed = b"torchrun -m experiments.toys.ok --epochs 2"
    assert list(handle.lines()) == [Line(node, 0, printed) for node in (0, 0, 1, 1)]
    assert [(ended.node, ended.code) for ended in handle.exits] == [(0, 0), (1, 0)]
    with pytest.raises(RequestError, match="is an option of shell"):
        targets.load("local", ["times=2"])
    target.cleanup(RunFolder(tmp_path))
