"""Options of a target that decide how long a run takes, as axes: runs that differ in them never share a row."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from runner.core.layout import Layout
from runner.core.text import one_line

if TYPE_CHECKING:
    from runner.records.schema import Launch

TARGET_AXES = ("link", "cpus")
_LONGEST = 60
_MOST = 1_000


def target_axes(launch: Launch, layout: Layout) -> dict[str, str]:
    """Return the axes of a run: `link` between its nodes, if it was slowed down, and the `cpus` of each, if limited."""
    link, cpus = launch.options.get("link"), launch.options.get("cpus")
    axes = {"link": one_line(link, _LONGEST)} if link and layout.nodes > 1 else {}
    if isinstance(cpus, str) and cpus:
        axes["cpus"] = one_line(_joined(cpus[:_MOST].split(","), layout.nodes), _LONGEST)
    return axes


def at_layout(cell: dict[str, Any]) -> dict[str, Any]:
    """Return what is left of a cell's axes at another layout: one node has no link, and the cores of the first."""
    with suppress(ValueError):  # the layout of a baseline is whatever a record says
        if Layout.parse(str(cell["layout"])).nodes == 1:
            cell = {axis: value for axis, value in cell.items() if axis != "link"}
            if isinstance(cpus := cell.get("cpus"), str):
                cell["cpus"] = cpus.partition("+")[0]
    return cell


def _joined(cpus: list[str], nodes: int) -> str:
    """Write the cores of the nodes, those of alike nodes once."""
    own = [one.strip() for one in cpus[:nodes]]
    return own[0] if len(set(own)) == 1 else "+".join(own)
