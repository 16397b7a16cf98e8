"""A node of a layout in torchrun's words: the same command on every node, all else in its environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.targets.base import NodeRequest

if TYPE_CHECKING:
    from runner.plan import Cell

RENDEZVOUS_SECONDS = 120
MASTER_PORT = 29500


def node_requests(cell: Cell, master: str) -> list[NodeRequest]:
    """Build the command and environment of every node; `master` is where the others find node 0.

    Rendezvous is static, which keeps the order of the nodes, and the per-rank files are the only ones that several
    processes cannot tear (`PET_REDIRECTS`, 3 for stdout and stderr).
    """
    command = ["torchrun", "-m", cell.program.module, *cell.program.argv(cell.args)]
    return [
        NodeRequest(
            command,
            {
                "PET_NNODES": str(cell.layout.nodes),
                "PET_NODE_RANK": str(node),
                "PET_NPROC_PER_NODE": str(processes),
                "PET_MASTER_ADDR": master,
                "PET_MASTER_PORT": str(MASTER_PORT),
                "PET_RDZV_CONF": f"timeout={RENDEZVOUS_SECONDS}",
                "PET_MONITOR_INTERVAL": "0.1",
                "PET_MAX_RESTARTS": "0",
                "PET_REDIRECTS": "3",
                "OMP_NUM_THREADS": str(cell.args.get("threads") or 1),
                "PYTHONUNBUFFERED": "1",
            },
            processes,
        )
        for node, processes in enumerate(cell.layout.processes)
    ]


def devices_per_process(cell: Cell) -> int:
    """GPUs of one process: one, unless the program spreads over several."""
    devices = cell.args.get("devices", 1)
    return devices if isinstance(devices, int) and devices > 0 else 1


def device_ids(cell: Cell) -> list[list[str]]:
    """Give each node GPUs of its own on a machine that all of them share."""
    layout, devices = cell.layout, devices_per_process(cell)
    firsts = [layout.first_rank(node) for node in range(layout.nodes)]
    return [
        [str(number) for number in range(first * devices, (first + processes) * devices)]
        for first, processes in zip(firsts, layout.processes, strict=True)
    ]
