"""`runner resume`."""

from pathlib import Path
from typing import Annotated

import typer

from runner.cli.options import project_root
from runner.core.errors import RunError


def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder, results/<experiment>/<run>.")],
    trust: Annotated[
        bool, typer.Option("--trust", help="Use the target and options of a record that you have not made here.")
    ] = False,
) -> None:
    """Start a run again that was interrupted, killed or failed.

    It begins from its beginning and stays one record: the earlier attempt is kept in attempts/1/ of its folder, and no
    claim rests on the run. Definition, args, layout, target and options are those of the record; it is refused if the
    code, the definition or the image is no longer the same.
    """
    from runner.cli.terminal import Screen
    from runner.execution import signals
    from runner.execution.resume import resume as start_again

    with signals.taken() as interrupts, Screen() as screen:
        record = start_again(run, project_root(), screen, interrupts, is_trusted=trust)
    if record.status != "completed":
        raise typer.Exit(RunError.exit_code)
