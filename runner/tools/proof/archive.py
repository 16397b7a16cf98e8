"""A folder <-> one tar archive: the same files always give the same bytes, and one from a stranger is unpacked safely.

The archive is a plain tar in the PAX format (POSIX.1-2001), sorted by name, of regular files only, each with the time,
owner and mode that all of them have. So an archive can be compared with one made again from its own contents: that
finds a changed byte anywhere, also between the files.
"""

import os
import re
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

from runner.core.errors import RequestError, RunError, reason_of
from runner.core.text import one_line
from runner.records import manifest
from trainkit import files

TOP = "kit"
"""The one folder that an archive holds."""
MOST_FILES = 500_000
MOST_BYTES = 64_000_000_000
LONGEST_NAME = 4_000
_TIME = 315_532_800  # 1980, the earliest that zip has too
_BLOCK = 1 << 20
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)
_CARRYING_TEXT = (*tarfile.GNU_TYPES, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
_LARGEST_HEADER = 17_000
"""Bytes of pax records: a name of `LONGEST_NAME` letters of four bytes each, and some room."""
_RECORD = re.compile(rb"(\d{1,5}) (?:hdrcharset|path|size)=")
_MOST_RECORDS = 3
_MAGIC = slice(257, 262)
"""Where POSIX has the magic of tar in each header."""
_TOO_MANY_DIGITS = re.compile(rb"\d{256}")
"""More than one name on a disk has. tarfile takes time with the square of a row of digits."""


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


def unpack(path: Path, folder: Path) -> None:
    """Unpack an archive into an empty folder, and nothing outside.

    Raises RunError if it is damaged, or holds what no archive of the kit does; RequestError if it is none, or cannot be
    read.
    """
    try:
        with files.open_file(path) as file:
            begin = file.read(tarfile.BLOCKSIZE)
            file.seek(0)
            # One that was altered in one of the two, or cut off before both, is an archive that does not hold.
            if begin and not begin.startswith(f"{TOP}/".encode()) and begin[_MAGIC] != b"ustar":
                raise RequestError(f"{one_line(path)}: neither a folder nor an archive of runner bundle")
            size = os.fstat(file.fileno()).st_size
            with tarfile.open(fileobj=file, mode="r:", tarinfo=_BoundedHeader) as tar:
                count, left = 0, min(size, MOST_BYTES)
                for member in tar:
                    count, left = count + 1, left - member.size
                    if why := _refused(member, count, left):
                        _fail(path, f"{one_line(member.name, 200)}: {why}")
                    content = tar.extractfile(member)
                    assert content is not None  # noqa: S101 - it is a regular file
                    _write(folder / PurePosixPath(member.name), content, member)
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        _fail(path, f"altered or cut off: {one_line(error, 200)}")
    except OSError as error:
        raise RequestError(f"{one_line(path)}: {reason_of(error)}") from None


def difference(path: Path, folder: Path) -> str | None:
    """Compare an archive with one made again from what was unpacked of it; say where they differ first."""
    with files.open_file(path) as file:
        comparing = _Comparing(file)
        pack(folder, comparing)
        if comparing.differs is None and file.read(1):
            comparing.differs = comparing.count
    if comparing.differs is None:
        return None
    return f"altered: it is not as runner bundle writes it, between its files, near byte {comparing.differs:,}"


def _refused(member: tarfile.TarInfo, count: int, left: int) -> str | None:
    """Return why a member is not unpacked."""
    parts = member.name.split("/")
    if count > MOST_FILES:
        return f"more than {MOST_FILES:,} files"
    if member.name.startswith("/") or len(member.name) > LONGEST_NAME or {"", ".", ".."} & set(parts):
        return "a name that leads out of the archive's folder"
    if not member.name.startswith(f"{TOP}/") or len(parts) > manifest.DEEPEST + 2 or "\0" in member.name:
        return f"only what lies in {TOP}/ is unpacked"
    if ".git" in member.name.lower().split("/"):
        return "a repository of git; runner bundle packs none"
    if member.type not in _PLAIN or member.sparse is not None:
        return "it is no regular file; an archive of runner bundle has no links and nothing else"
    return "it has more bytes than the archive" if left < 0 or member.size < 0 else None


def _write(path: Path, content: IO[bytes], member: tarfile.TarInfo) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    mode = 0o755 if member.mode & 0o100 else 0o644
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, flags, mode)
    except (FileExistsError, NotADirectoryError):
        raise tarfile.ReadError(f"{one_line(member.name, 200)} is in it twice, or lies below a file") from None
    with os.fdopen(descriptor, "wb") as file:
        left = member.size
        while left and (block := content.read(min(left, _BLOCK))):
            file.write(block)
            left -= len(block)
    if left:
        raise tarfile.ReadError(f"{one_line(member.name, 200)} is cut off")


def _fail(path: Path, why: str) -> None:
    raise RunError(f"{one_line(path)}: no level: {why}")


class _Comparing:
    """A stream that compares what is written with a file, and notes where they differ first."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.count = 0
        self.differs: int | None = None

    def write(self, data: bytes) -> int:
        if self.differs is None and (there := self._file.read(len(data))) != data:
            self.differs = self.count + len(os.path.commonprefix([data, there]))  # noqa: RUF071 - of bytes
        self.count += len(data)
        return len(data)


class _BoundedHeader(tarfile.TarInfo):
    """A tar header; one that carries text is read only if it is as `pack` writes it, before a file with a long name.

    tarfile reads others too: header within header until Python's stack is full, and some of them in time and memory
    that grow with the square of their size.
    """

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _CARRYING_TEXT and not self._is_as_packed(archive.fileobj):
            raise tarfile.ReadError(f"a header of {self.size:,} bytes that runner bundle does not write")
        return super()._proc_member(archive)  # type: ignore[misc,no-any-return]

    def _is_as_packed(self, file: Any) -> bool:
        """Return whether these are records of a regular file, whose header comes next; the place in the file stays."""
        if self.type != tarfile.XHDTYPE or not 0 < self.size <= _LARGEST_HEADER:
            return False
        begin = file.tell()
        text = file.read(self.size)
        file.seek(-self.size % tarfile.BLOCKSIZE, os.SEEK_CUR)
        following = file.read(tarfile.BLOCKSIZE)[156:157]
        file.seek(begin)
        if following not in _PLAIN or _TOO_MANY_DIGITS.search(text):
            return False
        for _ in range(_MOST_RECORDS):
            if record := _RECORD.match(text):
                text = text[int(record[1]) :]
        return not text
