"""What `runner check` said of an experiment, kept beside its records."""

from pathlib import Path
from typing import Any, Literal

import msgspec

from trainkit.files import write_file

FILE = "checked.json"


class Check(msgspec.Struct):
    """A verdict, the program with its arguments and the hash of its sources, the mistakes, and what was not compared.

    `off` says how far the gradient of each of the first steps is from that of one process with the batches of all
    ranks, relative to it, and `order` how far another order of the ranks leads by itself.
    """

    verdict: Literal["same", "differs", "unknown"]
    sources_sha256: str
    program: str = ""
    args: dict[str, Any] = {}
    mistakes: list[str] = []
    off: list[float] = []
    order: float | None = None
    not_checked: list[str] = []


def keep(results: Path, experiment: str, processes: int, check: Check) -> None:
    """Keep the newest check of an experiment with so many processes; OSError if it cannot be written."""
    from runner.records.folder import keep_out_of_git  # it loads all that writes a record

    keep_out_of_git(results)
    folder = results / experiment
    folder.mkdir(parents=True, exist_ok=True)
    checks = {**read(folder), str(processes): check}
    write_file(folder / FILE, msgspec.json.format(msgspec.json.encode(checks), indent=2) + b"\n")


def read(folder: Path) -> dict[str, Check]:
    """Read the checks of an experiment by their number of processes; {} if the file is missing or invalid."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=dict[str, Check])
    except (OSError, msgspec.DecodeError):
        return {}
