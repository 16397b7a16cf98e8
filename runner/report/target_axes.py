"""Options of a target that decide how long a run takes, as axes: runs that differ in them never share a row.

Which options these are, a record says by itself (`Launch.option_axes`).
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from runner.core.layout import Layout
from runner.records.schema import BETWEEN_NODES, OF_EACH_NODE, Launch


def target_axes(launch: Launch, layout: Layout) -> dict[str, str]:
    """Return the axes of a run that its target's options are, as far as they have a value at its layout.

    Of the values of its nodes, that of alike nodes stands once.
    """
    axes = {}
    for name, kind in launch.option_axes.items():
        value = launch.options.get(name)
        if kind == BETWEEN_NODES and value and layout.nodes > 1:
            axes[name] = str(value)
        elif kind == OF_EACH_NODE and value:
            own = [word.strip() for word in value.split(",")[: layout.nodes]]
            axes[name] = own[0] if len(set(own)) == 1 else "+".join(own)
    return axes


def at_layout(cell: dict[str, Any], kinds: Mapping[str, str]) -> dict[str, Any]:
    """Return what is left of a cell's axes at another layout: one node has no link, and the cores of the first."""
    with suppress(ValueError):  # the layout of a baseline is whatever a record says
        if Layout.parse(str(cell["layout"])).nodes == 1:
            cell = {axis: value for axis, value in cell.items() if kinds.get(axis) != BETWEEN_NODES}
            for axis in cell.keys() & kinds.keys():
                if isinstance(value := cell[axis], str) and kinds[axis] == OF_EACH_NODE:
                    cell[axis] = value.partition("+")[0]
    return cell
