"""Unpack an archive of records into a private folder, within limits, since anybody may have made the archive."""

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
"""The only folder at the top of an archive."""
RESULTS = "results"
MOST_FILES = 500_000
_LARGEST_HEADER = 17_000
"""Maximum bytes of a header with text: enough for a name of 4,000 four-byte characters."""
_MAGIC = slice(257, 262)
"""Position of tar's magic bytes."""


@dataclass
class Archive:
    """Unpacked archive. `faults` has one line for each file that differs from the manifest."""

    path: Path
    folder: Path
    faults: list[str] = field(default_factory=list)

    @property
    def results(self) -> Path:
        """Return the folder of the records. Raises RequestError if there is none."""
        if not (self.folder / RESULTS).is_dir():
            raise RequestError(f"{self.path}: the archive holds no records")
        return self.folder / RESULTS

    def within(self, text: str) -> str:
        """Make the paths in a text relative to the archive, because the unpacked folder is temporary."""
        return text.replace(f"{self.folder}/", "")


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """Unpack an archive for the duration of a `with` block, and compare the files with the archive's manifest.

    Raises RunError and RequestError as `unpack` does.
    """
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
    """Unpack an archive into an empty folder. Write nothing outside of it.

    Raises RunError if the archive is damaged or has unexpected members. Raises RequestError if the file cannot be read
    or is no archive.
    """
    try:
        with path.open("rb") as file:
            begin = file.read(tarfile.BLOCKSIZE)
            file.seek(0)
            # A damaged archive still begins with the name or the magic bytes, and is refused below.
            if begin and not begin.startswith(f"{TOP}/".encode()) and begin[_MAGIC] != b"ustar":
                raise RequestError(f"{path}: neither a folder nor an archive of runner bundle")
            left = os.fstat(file.fileno()).st_size
            with tarfile.open(fileobj=file, mode="r:", tarinfo=_BoundedHeader) as tar:
                for count, member in enumerate(tar, 1):
                    left -= member.size
                    if why := _refused(member, count, left):
                        raise tarfile.ReadError(f"{member.name}: {why}")
                    # `extract` needs a filter that some Pythons lack. Plain files in a new folder cannot be links.
                    target = folder / member.name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with target.open("wb") as output:
                        shutil.copyfileobj(cast("IO[bytes]", tar.extractfile(member)), output)
    except (tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError) as error:
        raise RunError(f"{path}: no level: altered or cut off: {one_line(error, 300)}") from None
    except OSError as error:
        raise RequestError(f"{path}: {reason_of(error)}") from None


def _refused(member: tarfile.TarInfo, count: int, left: int) -> str | None:
    if not member.isreg():
        return "not a regular file"
    if not member.name.startswith(f"{TOP}/") or ".." in member.name.split("/"):
        return f"only files in {TOP}/ are unpacked"
    if ".git" in member.name.lower().split("/"):
        return "part of a git repository"
    return f"more than {MOST_FILES:,} files, or more bytes than the archive" if count > MOST_FILES or left < 0 else None


class _BoundedHeader(tarfile.TarInfo):
    """Tar header of bounded size. tarfile reads the whole text of a header (long names, pax) into memory."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type not in tarfile.REGULAR_TYPES and self.size > _LARGEST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        return super()._proc_member(archive)  # type: ignore[misc,no-any-return]
