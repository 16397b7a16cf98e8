"""`runner node`."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from runner.cli.options import NAME, Device, Results, device_of, experiment_of


def node(
    experiment: Annotated[str, NAME],
    layout: Annotated[
        str, typer.Option("--layout", metavar="LAYOUT", help="The layout of the whole run, for example 1x2 or 2+3.")
    ],
    number: Annotated[int, typer.Option("--node", metavar="NUMBER", help="The number of this node, from 0.")] = 0,
    master: Annotated[
        str, typer.Option(metavar="HOST", help="The address of node 0, the same on all nodes.")
    ] = "127.0.0.1",
    run_id: Annotated[
        str,
        typer.Option("--run", metavar="ID", help="The id that node 0 prints, if the nodes share no results folder."),
    ] = "",
    device: Device = "auto",
    results: Results = Path("results"),
    args: Annotated[
        Optional[list[str]], typer.Argument(metavar="ARGS", help="Arguments of the program, for example -- --epochs 1.")
    ] = None,
) -> None:
    """Start one node of a run by hand.

    The files of compose/ do this in each container. Nodes that share a results folder find their run in it; the last
    node to end makes the record.
    """
    from runner.cli.terminal import Screen
    from runner.execution import signals
    from runner.execution.node import choose, run_node

    run = choose(experiment_of(experiment), layout, device_of(device), args or [])
    with signals.taken() as interrupts, Screen() as screen:
        code = run_node(run, number, master, results, screen, interrupts, run_id)
    raise typer.Exit(code)
