"""What the pipeline asks of tools: names here, modules imported on use.

Nothing else of the pipeline knows a tool. A kit without a tool's folder lacks what the tool can do, and nothing else.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

CAPABILITIES = {
    "script": "tools.init.unsaved",
}
"""What a tool can do for the pipeline, and its module."""


def capability(name: str) -> Any:
    """Import what a tool can do; None if this kit does without the tool."""
    return module(CAPABILITIES[name]) if is_there(CAPABILITIES[name]) else None


def module(name: str) -> Any:
    """Import a module by its name below `runner`."""
    return import_module(f"runner.{name}")


def is_there(name: str) -> bool:
    """Return whether this kit has a module below `runner`."""
    try:
        return find_spec(f"runner.{name}") is not None
    except ModuleNotFoundError:
        return False
