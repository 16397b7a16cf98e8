"""The targets that a test of the contract is run on, by the names that it has in reports."""

from __future__ import annotations

import pytest

TARGETS = {
    "local": pytest.param("local"),
    "compose": pytest.param("compose", marks=pytest.mark.engine),
    "pytorchjob": pytest.param("pytorchjob", marks=pytest.mark.cluster),
    "slurm": pytest.param("slurm", marks=pytest.mark.slurm),
    "trainjob": pytest.param("trainjob", marks=[pytest.mark.cluster, pytest.mark.trainer]),
    "indexed": pytest.param("indexed", marks=pytest.mark.cluster),
    "ssh": pytest.param("ssh", marks=pytest.mark.hosts),
}
HERE = ("local", "compose")
IN_CI = tuple(name for name in TARGETS if name != "trainjob")
"""Those whose faults docs/faults.md counts."""


def on(*names: str, alone: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Run a test on these targets, on some of them while no other test runs."""
    cases = [
        pytest.param(*TARGETS[name].values, marks=[*TARGETS[name].marks, *[pytest.mark.alone] * (name in alone)])
        for name in names
    ]
    return pytest.mark.parametrize("harness", cases, indirect=True)


def of(layouts: dict[str, tuple[str, ...]]) -> pytest.MarkDecorator:
    """Run a test with these layouts, each on its targets."""
    cases = [
        pytest.param(*TARGETS[name].values, layout, marks=TARGETS[name].marks)
        for layout, names in layouts.items()
        for name in names
    ]
    return pytest.mark.parametrize(("harness", "layout"), cases, indirect=["harness"])
