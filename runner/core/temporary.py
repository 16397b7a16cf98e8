"""Create temporary folders that are removed even if a signal arrives."""

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def temporary_folder(purpose: str) -> Iterator[Path]:
    """Create a private folder and remove it after the block. Raises OSError if it cannot be created.

    tempfile.TemporaryDirectory would leave its folder behind if a signal handler raised during creation or removal.
    """
    folder = Path(tempfile.gettempdir(), f"runner-{purpose}-{secrets.token_hex(8)}")
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        finally:  # a signal may have interrupted the first removal
            shutil.rmtree(folder, ignore_errors=True)
