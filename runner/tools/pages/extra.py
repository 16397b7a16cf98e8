"""matplotlib draws the plots; it is an extra, so it is imported on use, and a page can be made without it."""

from __future__ import annotations

from importlib.util import find_spec

from runner.core.errors import RequestError

LIBRARY = "matplotlib"
WAY_OUT = "make report installs it, elsewhere pip install 'distributed-experiment-kit[report]'"
NO_PLOTS = f"the page has no plots, because the package {LIBRARY} is not installed: {WAY_OUT}"


def can_draw() -> bool:
    """Whether plots can be drawn here."""
    return find_spec(LIBRARY) is not None


def require_extra(what: str) -> None:
    """Raise RequestError if something that has to be drawn cannot be."""
    if not can_draw():
        raise RequestError(f"{what} needs the package {LIBRARY}: {WAY_OUT}")
