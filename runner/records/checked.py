"""Results of `runner check`, kept beside the records of an experiment."""

from pathlib import Path
from typing import Any, Literal

import msgspec

from trainkit.files import write_file

FILE = "checked.json"


class Check(msgspec.Struct):
    """Result of one `runner check`.

    `off` holds the relative error of the gradient in each of the first steps. The reference is one process that takes
    the batches of all ranks. `order` is the error that arises if only the order of the ranks changes.
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
    """Save an experiment's latest check for a number of processes. Raises OSError if that fails."""
    from runner.records.folder import keep_out_of_git  # this module loads everything that writes records

    keep_out_of_git(results)
    folder = results / experiment
    folder.mkdir(parents=True, exist_ok=True)
    checks = {**read(folder), str(processes): check}
    write_file(folder / FILE, msgspec.json.format(msgspec.json.encode(checks), indent=2) + b"\n")


def read(folder: Path) -> dict[str, Check]:
    """Return an experiment's checks by number of processes; {} if the file is missing or invalid."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=dict[str, Check])
    except (OSError, msgspec.DecodeError):
        return {}
