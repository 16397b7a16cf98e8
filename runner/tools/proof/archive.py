"""A folder -> one tar archive: the same files always give the same bytes.

The archive is a plain tar in the PAX format (POSIX.1-2001), sorted by name, of regular files only, each with the time,
owner and mode that all of them have. `runner.records.unpacking` opens it.
"""

import os
import tarfile
from pathlib import Path
from typing import Any

from runner.records import manifest
from runner.records.unpacking import TOP
from trainkit import files

_TIME = 315_532_800  # 1980, the earliest that zip has too
_BLOCK = 1 << 20


def pack(folder: Path, stream: Any) -> None:
    """Write the files of a folder into a stream, as one archive; OSError if one cannot be read."""
    regular, _ = manifest.listing(folder)
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT, bufsize=_BLOCK) as tar:
        for name in sorted([*regular, *([manifest.NAME] if files.is_file(folder / manifest.NAME) else [])]):
            with files.open_file(folder / name, below=folder) as file:
                member = tarfile.TarInfo(f"{TOP}/{name}")
                member.size, member.mtime = os.fstat(file.fileno()).st_size, _TIME
                member.mode = 0o755 if os.fstat(file.fileno()).st_mode & 0o100 else 0o644
                tar.addfile(member, file)
