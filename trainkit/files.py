"""Open untrusted files safely: regular files only, no links, and bounded reads.

A link could lead to any file of the machine, a FIFO never ends, and a device fills all memory. Each function raises
OSError with a `strerror` that names the problem.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # opening a FIFO must not wait for its writer


def open_file(path: Path, below: Path | None = None) -> BinaryIO:
    """Open a regular file for reading.

    Args:
        path: the file.
        below: a parent folder; no component of the path below it may be a link. If None, only the file must not be one.
    """
    with _folder(path, below) as folder:
        return os.fdopen(_regular(path, _FILE, folder), "rb")


def read_file(path: Path, most: int, below: Path | None = None) -> bytes:
    """Read a regular file; OSError if it is longer than `most` bytes."""
    with open_file(path, below) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(size + 1) if size <= most else b""  # read(most) would allocate `most` bytes first
        if len(data) > size:  # the file is growing
            data += file.read(most - size)
    if size > most or len(data) > most:
        raise _error(errno.EFBIG, f"it has more than {most:,} bytes", path)
    return data


def require_output(path: Path, below: Path | None = None) -> None:
    """Raise OSError unless the path is free or names a regular file.

    Args:
        path: the file; neither it nor its folder needs to exist.
        below: a parent folder; no component of the path below it may be a link.
    """
    if below is not None:
        for folder in [folder for folder in reversed(path.parents) if below in folder.parents]:
            if folder.is_symlink():
                raise _error(errno.ELOOP, f"'{folder.name}' is a link, and links are not followed", path)
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise _error(errno.EINVAL, _NO_FILES.get(stat.S_IFMT(mode), "it is no regular file"), path)


_NO_FILES = {stat.S_IFLNK: "it is a link, and links are not followed", stat.S_IFDIR: "it is a folder"}


def write_file(path: Path, data: bytes, below: Path | None = None) -> None:
    """Write a file atomically: a temporary file is flushed to disk and renamed, or removed on failure.

    Raises OSError if the path exists and is not a regular file.
    """
    beside = f".{path.name}.{os.getpid()}.tmp"
    require_output(path, below)
    with _folder(path, below) as folder:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(beside, flags, 0o666, dir_fd=folder), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(beside, dir_fd=folder)
            raise


def create_file(path: Path, below: Path | None = None) -> BinaryIO:
    """Open a file for writing, truncated; OSError if the path exists and is not a regular file."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with _folder(path, below) as folder:
        return os.fdopen(_regular(path, flags, folder), "wb")


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder, and not a link to one."""
    return stat.S_ISDIR(_mode(path))


def is_file(path: Path) -> bool:
    """Return whether a path is a regular file, and not a link to one."""
    return stat.S_ISREG(_mode(path))


def _mode(path: Path) -> int:
    try:
        return os.lstat(path).st_mode
    except (OSError, ValueError):
        return 0


@contextmanager
def _folder(path: Path, below: Path | None) -> Iterator[int]:
    """Open a file's folder component by component from `below`, following no link."""
    base = below if below is not None else path.parent
    descriptor = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        text, begin = str(path), f"{base}/"
        parts = text[len(begin) :].split("/") if text.startswith(begin) else [*path.relative_to(base).parts]
        for part in parts[:-1]:
            if part == os.pardir:
                raise _error(errno.EINVAL, "it leads out of its folder", path)
            deeper = _step(part, descriptor, path)
            os.close(descriptor)
            descriptor = deeper
        yield descriptor
    finally:
        os.close(descriptor)


def _step(part: str, folder: int, path: Path) -> int:
    try:
        return os.open(part, _FOLDER, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and stat.S_ISLNK(os.lstat(part, dir_fd=folder).st_mode):
            raise _error(errno.ELOOP, f"'{part}' is a link, and links are not followed", path) from None
        raise OSError(error.errno, error.strerror, str(path)) from None


def _regular(path: Path, flags: int, folder: int) -> int:
    try:
        descriptor = os.open(path.name, flags, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _error(errno.ELOOP, "it is a link, and links are not followed", path) from None
        raise OSError(error.errno, error.strerror, str(path)) from None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise _error(errno.EINVAL, "it is no regular file", path)


def _error(number: int, words: str, path: Path) -> OSError:
    return OSError(number, words, str(path))
