"""A folder for temporary files."""

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def temporary_folder(purpose: str) -> Iterator[Path]:
    """Make a folder for a block and remove it in the end; OSError where it cannot be made.

    tempfile.TemporaryDirectory leaves its folder behind if a signal's exception comes while it makes or removes it.
    """
    folder = Path(tempfile.gettempdir(), f"runner-{purpose}-{secrets.token_hex(8)}")
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        finally:  # a signal may have come during the first removal
            shutil.rmtree(folder, ignore_errors=True)
