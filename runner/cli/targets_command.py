"""`runner targets`."""

from dataclasses import fields
from typing import Annotated, Optional, get_type_hints

import typer

from runner.cli.options import complete_target, show_rows
from runner.cli.printing import show


def targets(
    name: Annotated[
        Optional[str],
        typer.Argument(metavar="TARGET", help="Show the options of this target.", autocompletion=complete_target),
    ] = None,
) -> None:
    """List the targets, or the options of one.

    Give an option to `runner run` as --with name=value.
    """
    from runner.targets import TARGETS, find
    from runner.targets.base import type_name

    if name is None:
        show_rows([(target, find(target).summary) for target in sorted(TARGETS)])
        return
    target = find(name)
    types = get_type_hints(target.Options)
    rows: list[tuple[str, ...]] = []
    for option in fields(target.Options):
        value = option.default
        default = "-" if value in (None, "") else str(value).lower() if isinstance(value, bool) else str(value)
        rows.append((option.name, type_name(types[option.name]), default, str(option.metadata["help"])))
    if rows:
        show_rows([("name", "type", "default", "what it is"), *rows])
    else:
        show(f"target {name} has no options")
