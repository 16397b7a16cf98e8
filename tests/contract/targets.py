"""The targets that a test of the contract is run on, by the names that it has in reports."""

import pytest

TARGETS = {
    "local": pytest.param("local", marks=pytest.mark.slow),
    "compose": pytest.param("compose", marks=pytest.mark.engine),
    "pytorchjob": pytest.param("pytorchjob", marks=pytest.mark.cluster),
    "slurm": pytest.param("slurm", marks=pytest.mark.slurm),
    "trainjob": pytest.param("trainjob", marks=[pytest.mark.cluster, pytest.mark.trainer]),
    "indexed": pytest.param("indexed", marks=pytest.mark.cluster),
    "ssh": pytest.param("ssh", marks=pytest.mark.hosts),
}
SOON = pytest.param("local")
"""Target local, in a test that `make test` runs: one way to fail, to hang, to be interrupted and to be killed."""


def on(*names: str, alone: tuple[str, ...] = (), soon: bool = False) -> pytest.MarkDecorator:
    """Run a test on these targets, on some of them while no other test runs, and on local also in `make test`."""
    targets = TARGETS | {"local": SOON} if soon else TARGETS
    cases = [
        pytest.param(*targets[name].values, marks=[*targets[name].marks, *[pytest.mark.alone] * (name in alone)])
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
