"""`runner image pin`."""

from typing import Annotated, Optional

import typer

from runner.cli.lines import show
from runner.cli.options import project_root

app = typer.Typer(rich_markup_mode=None, help="The images that containers run.")


@app.command()
def pin(
    base: Annotated[Optional[str], typer.Option(metavar="IMAGE", help="Another base for the GPU image.")] = None,
    cpu_base: Annotated[Optional[str], typer.Option(metavar="IMAGE", help="Another base for the CPU image.")] = None,
) -> None:
    """Lock the base images to the digests that the engine has read from their registry.

    They go into containers/image.lock, and from there into compose/.
    """
    from runner.targets.committed_files import write
    from runner.targets.compose import engine
    from runner.targets.compose.base_images import pin as lock

    root = project_root()
    named = {"BASE_IMAGE": base, "CPU_BASE_IMAGE": cpu_base}
    locked = lock(root, engine.reach(), {name: value for name, value in named.items() if value})
    write(root)
    for name, value in locked.items():
        show(f"{name}={value}" + ("" if "@" in value else "  (not held by the engine: not pinned)"))
