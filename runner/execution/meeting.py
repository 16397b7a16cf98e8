"""Nodes that were started by hand find one run by a file in the results folder that they share, `.nodes/<work>`.

`work` is a hash of what a node is about to do. Node 0 writes the run's id there, and removes the file when all nodes
are together or its part has ended. Another node takes the id if the file is younger than `YOUNG_SECONDS`. While it
waits for one, a file of its own, `.nodes/<work>.node<number>`, shows node 0 that it is there, and with which work.

Times are those of the disk, so that the clocks of the machines do not matter.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from runner.core import clock
from runner.core.errors import RunError
from runner.core.text import listed
from runner.records.folder import RunFolder
from trainkit.files import write_file

YOUNG_SECONDS = 120.0
SAY_SECONDS = 10.0
_POLL_SECONDS = 0.5


class Meeting:
    """Node 0's side: the file with the run's id, and who of the other nodes is missing."""

    def __init__(self, results: Path, work: str, folder: RunFolder, nodes: int) -> None:
        self._folder, self._nodes, self._own = folder, nodes, _place(results) / work
        write_file(self._own, folder.path.name.encode())
        self._began = self._own.stat().st_mtime

    def missing(self) -> str:
        """Say which nodes are not here, and which of them have other work; empty if all are."""
        absent = [node for node in range(1, self._nodes) if not self._folder.agent(node).exists()]
        others = [node for node in absent if self._has_other_work(node)]
        said = []
        if others:
            said.append(f"node {listed(others)} has another experiment, args, layout or programs than node 0")
        if rest := [node for node in absent if node not in others]:
            elsewhere = f"a node that does not see this results folder needs --run {self._folder.path.name}"
            said.append(f"node {listed(rest)} is not here: started? with the --master that node 0 has? {elsewhere}")
        return "; ".join(said)

    def end(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            if self._own.read_text() == self._folder.path.name:  # else it is that of a later run
                self._own.unlink()

    def _has_other_work(self, node: int) -> bool:
        waiting = self._own.parent.glob(f"*.node{node}")
        with suppress(FileNotFoundError):  # it waits no longer
            return any(path.stem != self._own.name and path.stat().st_mtime > self._began for path in waiting)
        return False


def find(results: Path, work: str, node: int, say: Callable[[str], None], seconds: float = YOUNG_SECONDS) -> str:
    """Return the id of node 0's run of the same work; RunError if there is none within some seconds."""
    place = _place(results)
    own, shared = place / f"{work}.node{node}", place / work
    began = said = clock.monotonic()
    try:
        while True:
            own.touch()
            with suppress(FileNotFoundError):
                if own.stat().st_mtime - shared.stat().st_mtime < YOUNG_SECONDS:
                    return shared.read_text()
            now = clock.monotonic()
            if now - began > seconds:
                why = "started? with the same experiment, args, layout and programs?"
                raise RunError(f"node 0 of this run did not come to {place} within {seconds:g} s: {why}")
            if now - said > SAY_SECONDS:
                said = now
                say(f"waiting for node 0 in {place}; without a shared folder: --run ID, which node 0 prints")
            clock.sleep(_POLL_SECONDS)
    finally:
        own.unlink(missing_ok=True)


def _place(results: Path) -> Path:
    place = results / ".nodes"
    place.mkdir(exist_ok=True)
    return place
