"""The libraries that draw and lay out a page; they are an extra, so they are imported on use."""

from __future__ import annotations

import importlib

from runner.core.errors import RequestError

EXTRA = ("matplotlib", "jinja2")


def require_extra() -> None:
    """Raise RequestError if a library of the extra `report` is missing."""
    for name in EXTRA:
        try:
            importlib.import_module(name)
        except ImportError:
            way_out = "make report installs it, elsewhere pip install 'distributed-experiment-kit[report]'"
            msg = f"runner report needs the package {name}: {way_out}"
            raise RequestError(msg) from None
