"""Run real processes from the test's own process, so that it can hold the runner's clock."""

from collections.abc import Callable

import pytest

from runner import targets
from runner.cli.terminal import Screen
from runner.definitions import experiment as definition
from runner.definitions.choices import Selection
from runner.definitions.plan import make_plan
from runner.execution import signals
from runner.execution.run import execute
from runner.records.events import Event
from tests.support.projects import Project


class Watching(Screen):
    """A screen that calls a function once it has shown an event or a line a number of times."""

    def __init__(self, what: str | bytes, times: int, do: Callable[[], None]) -> None:
        super().__init__()
        self._what, self._left, self._do = what, times, do

    def event(self, event: Event) -> None:
        super().event(event)
        self._see(event.key)

    def printed(self, line: bytes) -> None:
        super().printed(line)
        self._see(line)

    def _see(self, seen: str | bytes) -> None:
        self._left -= seen == self._what
        if seen == self._what and self._left == 0:
            self._do()


def run_here(
    project: Project, monkeypatch: pytest.MonkeyPatch, *, at: str | bytes, times: int, do: Callable[[], None]
) -> None:
    """Run a project's experiment in this process; call `do` at the n-th event with a key, or the n-th such line."""
    for name, value in project.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(project.root)
    experiment = definition.load(project.root / "experiments" / "tiny.yaml", project.root)
    with signals.taken() as interrupts, Watching(at, times, do) as screen:
        plan = make_plan(experiment, Selection())
        execute(plan, targets.load("local"), project.results, screen, interrupts)
