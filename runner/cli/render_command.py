"""`runner render`."""

from typing import Annotated

import typer

from runner.cli.options import project_root
from runner.cli.printing import say
from runner.core.errors import RequestError


def render(check: Annotated[bool, typer.Option("--check", help="Write nothing; report what differs.")] = False) -> None:
    """Render compose/, k8s/ and slurm/."""
    from runner.targets.committed_files import differing, write

    root = project_root()
    paths = list(differing(root)) if check else write(root)
    names = [str(path.relative_to(root)) for path in paths]
    if check and names:
        raise RequestError(f"{', '.join(names)}: not up to date; run `runner render`")
    for name in names:
        say(f"rendered {name}")
    if not names:
        say("every file is up to date")
