"""`runner plan`."""

from runner.cli.columns import show_rows
from runner.cli.lines import show
from runner.cli.options import Change, Device, Layouts, Name, Only, Repeat, plan_of, show_project


def plan(
    experiment: Name,
    only: Only = None,
    layout: Layouts = None,
    change: Change = None,
    repeat: Repeat = None,
    device: Device = "auto",
) -> None:
    """Show what would be run; start nothing.

    Every cell with its command, and what is left out and why.
    """
    made = plan_of(experiment, layout, only, change, repeat, device)
    first = made.runs[0]
    rows: list[tuple[str, ...]] = []
    for cell in made.cells:
        world = cell.layout.world_size
        rows.append((str(cell), f"{world} process{'es' * (world > 1)}, n = {first.repeats}", cell.command()))
    rows += [(name, "left out", skip.why) for name, skip in made.skipped]
    show_rows(rows)
    limit = first.experiment.timeout_seconds
    show(f"{len(made.runs)} runs on {first.device}, each {limit:g} s at most")
    show_project()
