"""Target `replay`: a recorded stdout instead of a launch, for tests and demos.

The option `recording` names a file, which then stands for every run, or a folder of files `<cell>-<repeat>.log`, the
cell written as in `runner plan` with spaces as underscores, as `1x2_backend=gloo-1.log`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import RequestError
from runner.schema import NodeExit
from runner.targets.base import Line, NodeRequest, Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.console import Screen
    from runner.plan import Run
    from runner.record import RunFolder


def request(run: Run, options: dict[str, str]) -> Request:
    """Name the file that is to be read."""
    if "recording" not in options:
        msg = "target replay needs --recording: a file, or a folder of <cell>-<repeat>.log"
        raise RequestError(msg)
    name = f"{str(run.cell).replace(' ', '_').replace('/', '_')}-{run.repeat}.log"
    nodes = [NodeRequest([], {}, processes) for processes in run.cell.layout.processes]
    return Request(nodes, str(run.experiment.root), {"recording": options["recording"], "name": name})


def check(request: Request) -> None:
    """Look for the recording."""
    path = _recording(request)
    if not path.is_file():
        msg = f"{path}: there is no such recording"
        raise RequestError(msg)


def image(request: Request, screen: Screen) -> None:
    """There is none."""


def start(request: Request, folder: RunFolder) -> ReplayExecution:
    """Copy the recording to where rank 0's output goes, and read it."""
    return ReplayExecution(folder.keep_recording(_recording(request)), len(request.nodes))


class ReplayExecution:
    """A recorded run; its launchers always ended well, since nothing was launched."""

    def __init__(self, path: Path, nodes: int) -> None:
        self._path = path
        self.exits = [NodeExit(node, 0) for node in range(nodes)]

    def lines(self) -> Iterator[Line | None]:
        """Yield the recorded lines."""
        with self._path.open("rb") as file:
            for text in file:
                yield Line(0, 0, text.rstrip(b"\r\n"))

    def stop(self) -> None:
        """There is nothing to end."""


def _recording(request: Request) -> Path:
    path = Path(request.options["recording"])
    return path / request.options["name"] if path.is_dir() else path
