"""How a file from outside is opened: no links, regular files only, and never more than is asked for.

Everything below a run's folder, definitions, data and archives is read through here. A link could lead to any file of
the machine, a FIFO never ends, and a device fills all memory. Each function raises OSError, with a `strerror` that says
which of these it met.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO without a writer is opened at once


def open_file(path: Path, below: Path | None = None) -> BinaryIO:
    """Open a regular file for reading.

    Args:
        path: the file.
        below: a folder above it; no component of the path below this folder may be a link. Without it, only the file
            itself may not.
    """
    with _folder(path, below) as folder:
        return os.fdopen(_regular(path, _FILE, folder), "rb")


def read_file(path: Path, most: int, below: Path | None = None) -> bytes:
    """Read a regular file of at most `most` bytes; a longer one is refused."""
    with open_file(path, below) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(size + 1) if size <= most else b""  # no more than is there: memory is taken in advance
        if len(data) > size:  # it grows
            data += file.read(most - size)
    if size > most or len(data) > most:
        raise _error(errno.EFBIG, f"it has more than {most:,} bytes", path)
    return data


def require_output(path: Path, below: Path | None = None) -> None:
    """Raise OSError unless a file can be made or replaced: there is none of this name, or a regular one.

    A device, a FIFO, a link and a folder are left as they are.

    Args:
        path: the file, which does not have to be there, nor its folder.
        below: a folder above it; no component of the path below this folder may be a link.
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
    """Write a file whole or not at all: beside it, flushed to the disk, renamed; a failure leaves nothing behind.

    What is there already is replaced only if it is a regular file.
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
    """Open a file for writing, empty; one that is there already has to be a regular file, and no link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with _folder(path, below) as folder:
        return os.fdopen(_regular(path, flags, folder), "wb")


def move_file(path: Path, target: Path, below: Path) -> None:
    """Rename a regular file; neither of the two paths leads through a link, and nothing outside `below` changes."""
    with _folder(path, below) as source, _folder(target, below) as folder:
        if not stat.S_ISREG(os.stat(path.name, dir_fd=source, follow_symlinks=False).st_mode):
            raise _error(errno.EINVAL, "it is no regular file", path)
        os.rename(path.name, target.name, src_dir_fd=source, dst_dir_fd=folder)


def remove_empty_folders(path: Path, below: Path) -> None:
    """Remove a folder and the folders in it, where nothing else is left in them; links are not followed."""
    with _folder(path, below) as folder:
        for _, names, _, inner in os.fwalk(path.name, topdown=False, dir_fd=folder):
            for name in names:
                with suppress(OSError):
                    os.rmdir(name, dir_fd=inner)
        with suppress(OSError):
            os.rmdir(path.name, dir_fd=folder)


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder, and no link to one."""
    return stat.S_ISDIR(_mode(path))


def is_file(path: Path) -> bool:
    """Return whether a path is a regular file, and no link to one."""
    return stat.S_ISREG(_mode(path))


def _mode(path: Path) -> int:
    """Return what `lstat` says of a path's kind; 0 if it has none."""
    try:
        return os.lstat(path).st_mode
    except (OSError, ValueError):
        return 0


@contextmanager
def _folder(path: Path, below: Path | None) -> Iterator[int]:
    """Open the folder of a file, step by step from `below`, so that no step is a link."""
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
