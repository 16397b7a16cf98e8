"""Events, clocks, process groups and data for training programs.

A script needs three lines to report its run; see docs/own-repository.md::

    from trainkit import running

    with running() as run:
        ...

Importing the package does not import torch; importing `running` does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainkit.script import ScriptRun, running

__all__ = ["ScriptRun", "running"]


def __getattr__(name: str) -> Any:
    """Import names that need torch on first access."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.script"), name)
