"""Files that a person names for output, or that belong to a project: a request that cannot be met is one line.

A device, a FIFO, a socket, a link or a folder of that name is left as it is, and nothing is written through a link.
"""

import errno
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from runner.core.errors import RequestError
from runner.core.text import one_line
from trainkit import files


def require_outputs(paths: Iterable[Path], below: Path | None = None) -> None:
    """Raise RequestError unless each file can be made or replaced; below a folder, none may lie behind a link."""
    for path in paths:
        try:
            files.require_output(path, below)
        except OSError as error:
            raise _refused(path, error) from None


def write_outputs(outputs: Mapping[Path, bytes], below: Path | None = None) -> None:
    """Write each file whole or not at all, and none if one of them is refused; below a folder, its folders are made."""
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
        why = "there is no such folder to write it to"
    if error.errno == errno.ENOTDIR:
        place = next((place for place in path.parents if place.is_file()), path.parent)
        why = f"'{one_line(place.name)}' is no folder"
    return RequestError(f"{one_line(path)}: cannot be written: {why}")
