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
    """List each licence with the packages that name it, the most frequent first; last, those that name none."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in packages:
        for licence in one.licences or ("",):
            found[licence].add(one.name)
    named = sorted((name for name in found if name), key=lambda name: (-len(found[name]), name))
    lines = [f"  {len(found[name]):>4}  {name}: {listed(sorted(found[name]), most=MOST_NAMED)}" for name in named]
    if lost := found.get(""):
        lines.append(f"  {len(lost):>4}  no licence named: {listed(sorted(lost), most=MOST_NAMED)}")
    return ["licences:", *lines] if lines else []
