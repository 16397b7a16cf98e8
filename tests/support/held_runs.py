"""Runs of real processes under a clock that the test holds: the runner is the test's own process."""

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
    """Shows a run as a person sees it, and does something as soon as it has seen an event or a line so often."""

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
    """Run a project's experiment once in this process; do something when an event's key, or a line, has come so often.

    Raises Interrupted after a signal.
    """
    for name, value in project.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(project.root)
    experiment = definition.load(project.root / "experiments" / "tiny.yaml", project.root)
    with signals.taken() as interrupts, Watching(at, times, do) as screen:
        plan = make_plan(experiment, Selection())
        execute(plan, targets.load("local"), project.results, screen, interrupts)
