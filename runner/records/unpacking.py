"""An archive of records, from anybody: opened in a private folder, within bounds. Nothing of it is run."""

import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

from runner.core.errors import RequestError, RunError, reason_of
from runner.core.temporary import temporary_folder
from runner.core.text import one_line
from runner.records import manifest

TOP = "kit"
"""The one folder that an archive holds."""
RESULTS = "results"
MOST_FILES = 500_000
_LARGEST_HEADER = 17_000
"""Bytes of a header that carries text: a name of 4,000 letters of four bytes each, and some room."""
_MAGIC = slice(257, 262)
"""Where POSIX has the magic of tar in each header."""


@dataclass
class Archive:
    """An opened archive: `faults` names each file that is not as it was packed."""

    path: Path
    folder: Path
    faults: list[str] = field(default_factory=list)

    @property
    def results(self) -> Path:
        """The folder of the records; RequestError if there is none."""
        if not (self.folder / RESULTS).is_dir():
            raise RequestError(f"{self.path}: there are no records in it")
        return self.folder / RESULTS

    def within(self, text: str) -> str:
        """Write paths as they are in the archive; its folder is gone when somebody reads the text."""
        return text.replace(f"{self.folder}/", "")


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """Unpack an archive in a block, and compare it with its manifest; RunError, RequestError as for `unpack`."""
    with temporary_folder("kit") as scratch:
        unpack(path, scratch)
        archive = Archive(path, scratch / TOP)
        try:
            archive.faults = manifest.altered(
                manifest.read((archive.folder / manifest.NAME).read_bytes()), archive.folder
            )
        except (OSError, ValueError) as error:
            archive.faults = [f"{manifest.NAME}: {reason_of(error)}"]
        yield archive


def unpack(path: Path, folder: Path) -> None:
    """Unpack an archive into an empty folder, and nothing outside.

    Raises RunError if it is damaged, or holds what no archive of the kit does; RequestError if it is none, or cannot be
    read.
    """
    try:
        with path.open("rb") as file:
            begin = file.read(tarfile.BLOCKSIZE)
            file.seek(0)
            # One that was altered in one of the two, or cut off before both, is an archive that does not hold.
            if begin and not begin.startswith(f"{TOP}/".encode()) and begin[_MAGIC] != b"ustar":
                raise RequestError(f"{path}: neither a folder nor an archive of runner bundle")
            left = os.fstat(file.fileno()).st_size
            with tarfile.open(fileobj=file, mode="r:", tarinfo=_BoundedHeader) as tar:
                for count, member in enumerate(tar, 1):
                    left -= member.size
                    if why := _refused(member, count, left):
                        raise tarfile.ReadError(f"{member.name}: {why}")
                    # Without `extract`, whose filter not every Python has; in a new folder of plain files is no link.
                    target = folder / member.name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with target.open("wb") as output:
                        shutil.copyfileobj(cast("IO[bytes]", tar.extractfile(member)), output)
    except (tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError) as error:
        raise RunError(f"{path}: no level: altered or cut off: {one_line(error, 300)}") from None
    except OSError as error:
        raise RequestError(f"{path}: {reason_of(error)}") from None


def _refused(member: tarfile.TarInfo, count: int, left: int) -> str | None:
    """Return why a member is not unpacked."""
    if not member.isreg():
        return "it is no regular file"
    if not member.name.startswith(f"{TOP}/") or ".." in member.name.split("/"):
        return f"only what lies in {TOP}/ is unpacked"
    if ".git" in member.name.lower().split("/"):
        return "a repository of git"
    return f"more than {MOST_FILES:,} files, or more bytes than the archive" if count > MOST_FILES or left < 0 else None


class _BoundedHeader(tarfile.TarInfo):
    """A tar header; one that carries text (a long name, pax records) is read into memory whole, so it is bounded."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type not in tarfile.REGULAR_TYPES and self.size > _LARGEST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        return super()._proc_member(archive)  # type: ignore[misc,no-any-return]
