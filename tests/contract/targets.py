"""Parametrise the contract's tests with targets."""

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
"""Target local in `make test`, for one failure, one hang, one interrupt and one kill."""


def on(*names: str, series: tuple[str, ...] = (), soon: bool = False) -> pytest.MarkDecorator:
    """Run a test on these targets, on local also in `make test`, and on more only with `pytest -m series`."""
    targets = TARGETS | {"local": SOON} if soon else TARGETS
    more = [pytest.param(name, marks=[*TARGETS[name].marks, pytest.mark.series]) for name in series]
    return pytest.mark.parametrize("harness", [*(targets[name] for name in names), *more], indirect=True)
