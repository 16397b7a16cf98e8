"""Write output files that the user names, or fail with a one-line error.

Devices, FIFOs, sockets, links and folders are never replaced, and nothing is written through a link.
"""

import errno
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from runner.core.errors import RequestError
from runner.core.text import one_line
from trainkit import files


def require_outputs(paths: Iterable[Path], below: Path | None = None) -> None:
    """Raise RequestError if a file cannot be created or replaced, or if its path has a link inside `below`."""
    for path in paths:
        try:
            files.require_output(path, below)
        except OSError as error:
            raise _refused(path, error) from None


def write_outputs(outputs: Mapping[Path, bytes], below: Path | None = None) -> None:
    """Write each file atomically. If `require_outputs` refuses one of them, write none.

    If `below` is given, create missing folders inside it.
    """
    require_outputs(outputs, below)
    for path, data in outputs.items():
        try:
            if below is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            files.write_file(path, data, below)
        except OSError as error:
            raise _refused(path, error) from None


def _refused(path: Path, error: OSError) -> RequestError:
    why = error.strerror or os.strerror(error.errno or 0)
    if error.errno == errno.ENOENT:
        why = "its folder does not exist"
    if error.errno == errno.ENOTDIR:
        place = next((place for place in path.parents if place.is_file()), path.parent)
        why = f"'{one_line(place.name)}' is not a folder"
    return RequestError(f"{one_line(path)}: cannot be written: {why}")
