"""Packages -> lines for a person: how many there are, and under which licences."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from runner.core.text import listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.supply.packages import Package

KINDS = {"pypi": "Python packages", "deb": "Debian packages"}
MOST_NAMED = 12


def counted(packages: Iterable[Package], subject: str, version: str) -> list[str]:
    """Say what holds how many packages of each kind."""
    found = [one.kind for one in packages]
    counts = [f"{found.count(kind)} {words}" for kind, words in KINDS.items() if kind in found]
    return [f"{subject} {version[:19]}: {', '.join(counts) or 'no packages'}"]


def licences(packages: Iterable[Package]) -> list[str]:
    """List the licences of each kind of package and what has them: the most frequent first, then what names none."""
    found: dict[str, dict[str, set[str]]] = {kind: defaultdict(set) for kind in KINDS}
    for one in packages:
        for licence in one.licences or ("",):
            found[one.kind][licence].add(one.name)
    return [line for kind, named in found.items() if named for line in (f"licences of {KINDS[kind]}:", *_listed(named))]


def _listed(named: dict[str, set[str]]) -> list[str]:
    order = sorted(named, key=lambda name: (not name, -len(named[name]), name))
    names = {name: listed(sorted(named[name]), most=MOST_NAMED) for name in order}
    return [f"  {len(named[name]):>4}  {name or 'no licence named'}: {names[name]}" for name in order]
