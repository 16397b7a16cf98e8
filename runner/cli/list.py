"""`runner list`."""

import typer

from runner.cli.columns import show_rows
from runner.cli.lines import say
from runner.cli.options import project_root, show_project
from runner.core.errors import RequestError
from runner.definitions import experiment as definition


def list_() -> None:
    """Show the experiments."""
    root = project_root()
    rows: list[tuple[str, ...]] = []
    broken: list[RequestError] = []
    for path in definition.files(root):
        try:
            found = definition.load(path, root)
        except RequestError as error:
            broken.append(error)
            continue
        rows.append((found.name, found.summary, str(found.published["source"]) if found.published else ""))
    if not rows and not broken:
        raise RequestError(f"{root}: there are no experiments; runner init writes the first")
    show_rows(rows)
    show_project()
    for wrong in broken:
        say(f"error: {wrong}")
    if broken:
        raise typer.Exit(RequestError.exit_code)
