"""`runner node`."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from runner.cli.options import NAME, Device, Results, device_of, experiment_of


def node(
    experiment: Annotated[str, NAME],
    layout: Annotated[
        str, typer.Option("--layout", metavar="LAYOUT", help="All nodes of the run, for example 1x2 or 2+3.")
    ],
    number: Annotated[int, typer.Option("--node", metavar="NUMBER", help="Which of them this is, from 0.")] = 0,
    master: Annotated[
        str, typer.Option(metavar="HOST", help="The address of node 0, the same on all nodes.")
    ] = "127.0.0.1",
    run_id: Annotated[
        str, typer.Option("--run", metavar="ID", help="What node 0 prints, where its results folder is not shared.")
    ] = "",
    device: Device = "auto",
    results: Results = Path("results"),
    args: Annotated[
        Optional[list[str]], typer.Argument(metavar="ARGS", help="After --, for example -- --epochs 1.")
    ] = None,
) -> None:
    """Start one node of a run by hand.

    The files of compose/ do this in each container. The nodes find one run in the results folder that
    they share, and the last one to end makes its record.
    """
    from runner.cli.terminal import Screen
    from runner.execution import signals
    from runner.execution.node import choose, run_node

    run = choose(experiment_of(experiment), layout, device_of(device), args or [])
    with signals.taken() as interrupts, Screen() as screen:
        code = run_node(run, number, master, results, screen, interrupts, run_id)
    raise typer.Exit(code)
