"""The runs that this user has started here: a file for each, outside of `results/`, with the place of its folder.

A record names hosts, configurations, jobs and containers. `runner recover` uses them only where such a file has the
path of the run's folder. The files lie in `distributed-experiment-kit/started` of
`$XDG_STATE_HOME`, by default `~/.local/state`. That of a run goes when the run has completed, or its folder is gone.
"""

import os
from contextlib import suppress
from pathlib import Path


def remember(run: Path) -> None:
    """Keep that this user starts a run; without it `runner recover` leaves other targets alone."""
    with suppress(OSError):
        shelf = _shelf()
        shelf.mkdir(mode=0o700, parents=True, exist_ok=True)
        (shelf / run.name).write_bytes(os.fsencode(run.resolve()))
        for note in shelf.iterdir():  # those of runs whose folders are gone
            if not os.path.lexists(note.read_bytes()):
                note.unlink()


def forget(run: Path) -> None:
    """Remove the file of a run that has completed."""
    with suppress(OSError):
        (_shelf() / run.name).unlink()


def is_own(run: Path) -> bool:
    """Return whether this user has started the run of this folder."""
    try:
        return (_shelf() / run.name).read_bytes() == os.fsencode(run.resolve())
    except OSError:
        return False


def _shelf() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111 - never raises
    return Path(base).absolute() / "distributed-experiment-kit" / "started"
