"""The runs that this user has started here: a file for each, outside of `results/`, which no record can forge.

A record may come from a stranger, and names hosts, configurations, jobs and containers. `runner recover` uses
them only where such a file has the path of the run's folder and the hash of its launch, or a person says so. The files
lie in `distributed-experiment-kit/started` of `$XDG_STATE_HOME`, by default `~/.local/state`, where no
other user may write. That of a run goes when the run has completed, or its folder is gone.
"""

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

from trainkit import files

_LAUNCH = "request/launch.json"
_LARGEST_LAUNCH = 64_000_000
_LARGEST_NOTE = 100_000


def remember(run: Path) -> None:
    """Keep that this user starts a run; where that cannot be written, `runner recover` asks the person later."""
    with suppress(OSError):
        shelf = _shelf()
        shelf.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(shelf / run.name, flags, 0o600), "wb") as note:
            note.write(_line(run))
        for note_of_run in shelf.iterdir():  # those of runs whose folders are gone
            launch = os.fsdecode(note_of_run.read_bytes()).partition("  ")[2].rstrip("\n")
            if not os.path.lexists(launch):
                note_of_run.unlink()


def forget(run: Path) -> None:
    """Remove the file of a run that has completed."""
    with suppress(OSError):
        (_shelf() / run.name).unlink()


def is_own(run: Path) -> bool:
    """Return whether this user has started the run of this folder, as it was then."""
    shelf = _shelf()
    try:
        for path in (shelf, shelf / run.name):
            held = path.lstat()
            if held.st_uid != os.geteuid() or held.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return False
        return files.read_file(shelf / run.name, _LARGEST_NOTE, below=shelf) == _line(run)
    except OSError:
        return False


def _line(run: Path) -> bytes:
    """Return the line of sha256sum(1) for the launch of a run."""
    launch = files.read_file(run / _LAUNCH, _LARGEST_LAUNCH, below=run)
    return b"%s  %s\n" % (hashlib.sha256(launch).hexdigest().encode(), os.fsencode(run.resolve() / _LAUNCH))


def _shelf() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111 - never raises
    return Path(base).absolute() / "distributed-experiment-kit" / "started"
