"""Build torchrun's command and environment for each node of a layout."""

import json
from itertools import count, islice

from runner.core.layout import Layout
from runner.definitions.environment import variables_of
from runner.definitions.plan import Cell, Run
from runner.targets.base import NodeSpec
from runner.targets.clean_environment import WITHOUT_GPU

DEVICE = "device"
RENDEZVOUS_SECONDS = 120
MASTER_PORT = 29500


def node_specs(cell: Cell, master: str, device: str) -> list[NodeSpec]:
    """Return the command and environment of every node; `master` is the address of node 0."""
    command, shared = node_command(cell), node_environment(cell, device)
    return [
        NodeSpec(
            command,
            {
                "PET_NNODES": str(cell.layout.nodes),
                "PET_NODE_RANK": str(node),
                "PET_NPROC_PER_NODE": str(processes),
                "PET_MASTER_ADDR": master,
                "PET_MASTER_PORT": str(MASTER_PORT),
                **shared,
            },
            processes,
        )
        for node, processes in enumerate(cell.layout.processes)
    ]


def node_command(cell: Cell) -> list[str]:
    """Return the command of every node. `$` is doubled, because torchrun expands arguments by `string.Template`."""
    words = [word.replace("$", "$$") for word in cell.program.argv(cell.args)]
    return ["torchrun", *cell.program.words, *words]


def node_environment(cell: Cell, device: str) -> dict[str, str]:
    """Return the environment variables that are equal on all nodes.

    Static rendezvous keeps the order of the nodes. Each rank writes stdout and stderr to its own files, so that lines
    do not mix (`PET_REDIRECTS`). On device cpu, GPUs are hidden from programs without a device argument. A process that
    crashes or hangs prints its stack (`PYTHONFAULTHANDLER`). `PYTHONPATH` is relative to the working directory.
    """
    hidden = WITHOUT_GPU if device == "cpu" and DEVICE not in cell.args else {}
    search = {"PYTHONPATH": ":".join(cell.program.search)} if cell.program.search else {}
    return {
        **hidden,
        **search,
        "PET_RDZV_CONF": f"timeout={RENDEZVOUS_SECONDS}",
        "PET_MONITOR_INTERVAL": "0.1",
        "PET_MAX_RESTARTS": "0",
        "PET_REDIRECTS": "3",
        "OMP_NUM_THREADS": str(cell.threads_per_process),
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        **variables_of(cell.args),
    }


def identity_of(run: Run) -> str:
    """Return the experiment and cell of a run as JSON, for the record of a run started by hand."""
    cell = run.cell
    what = {"experiment": run.experiment.name, "program": cell.program.name, "layout": str(cell.layout)}
    return json.dumps({**what, "device": run.device, "axes": cell.axes, "args": cell.args})


def device_ids(layout: Layout, devices: int) -> list[list[str]]:
    """Divide the GPUs of one machine among the nodes; `devices` is the number of GPUs per process."""
    ids = map(str, count())
    return [list(islice(ids, processes * devices)) for processes in layout.processes]
