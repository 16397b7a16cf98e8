"""What every training program uses: its place among the ranks, its clock, its event lines, its data.

A script of one's own needs three lines of it, which docs/own-repository.md explains::

    from trainkit import running

    with running() as run:
        ...

Importing the package imports no torch; `running` does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainkit.script import ScriptRun, running

__all__ = ["ScriptRun", "running"]


def __getattr__(name: str) -> Any:
    """Import what needs torch when it is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.script"), name)
