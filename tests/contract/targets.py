"""The targets that a test of the contract is run on, by the names that it has in reports."""

import pytest

from tests.contract.harness import Containers, Harness, Hosts, IndexedPods, Jobs, Pods

_TARGETS: dict[str, tuple[type[Harness], list[pytest.MarkDecorator]]] = {
    "local": (Harness, [pytest.mark.slow]),
    "compose": (Containers, [pytest.mark.engine]),
    "pytorchjob": (Pods, [pytest.mark.cluster]),
    "slurm": (Jobs, [pytest.mark.slurm]),
    "trainjob": (IndexedPods, [pytest.mark.cluster, pytest.mark.trainer]),
    "indexed": (IndexedPods, [pytest.mark.cluster]),
    "ssh": (Hosts, [pytest.mark.hosts]),
}
HARNESSES = {name: kind for name, (kind, _) in _TARGETS.items()}
TARGETS = {name: pytest.param(name, marks=marks) for name, (_, marks) in _TARGETS.items()}
SOON = pytest.param("local")
"""Target local, in a test that `make test` runs: one way to fail, to hang, to be interrupted and to be killed."""


def on(*names: str, series: tuple[str, ...] = (), soon: bool = False) -> pytest.MarkDecorator:
    """Run a test on these targets, on local also in `make test`, and on more only with `pytest -m series`."""
    targets = TARGETS | {"local": SOON} if soon else TARGETS
    cases = [
        pytest.param(*targets[name].values, marks=[*targets[name].marks, *[pytest.mark.series] * (name in series)])
        for name in (*names, *series)
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
