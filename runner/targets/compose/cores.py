"""How many cores each container may use: nodes as small, or as unlike, as those that an experiment is about."""

from __future__ import annotations

import re

from runner.core.errors import RequestError
from runner.core.text import shown

_CPUS = re.compile(r"\d{1,4}(?:\.\d{1,2})?", re.ASCII)
_LEAST = 0.01
"""What an engine takes at least: a quota of 1 ms in each period of 100 ms."""


def parse_cpus(text: str) -> list[float]:
    """Read the cores of the nodes, one figure for all of them or one for each; RequestError for what is none."""
    if not text:
        return [0]
    found = [float(word) if _CPUS.fullmatch(word) else 0 for word in (part.strip() for part in text.split(","))]
    if min(found) < _LEAST:
        raise RequestError(
            f"--with cpus={shown(text)}: write numbers of cores from {_LEAST}, for example 1, or 1,0.5 for two nodes"
        )
    return found


def cpus_of(cpus: list[float], nodes: int) -> list[float]:
    """Return the cores of each node; fewer nodes than figures are the first ones. RequestError for too few figures."""
    if len(cpus) == 1:
        return cpus * nodes
    if len(cpus) < nodes:
        raise RequestError(
            f"--with cpus={','.join(f'{one:g}' for one in cpus)}: {nodes} nodes need a figure each, or one for all"
        )
    return cpus[:nodes]
