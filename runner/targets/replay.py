"""Target `replay`: a recorded stdout instead of a launch, for tests and demos."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, asdict, dataclass
from pathlib import Path
from typing import ClassVar

from runner.core.errors import RequestError
from runner.definitions.plan import Run
from runner.records.folder import RunFolder
from runner.records.schema import NodeExit
from runner.targets.base import Handle, LaunchSpec, Line, NodeSpec, Note, Target, option
from runner.targets.worker_logs import BLOCK_BYTES, BoundedLines, cut_note
from trainkit import files


@dataclass(frozen=True)
class Options:
    """The options of target replay."""

    recording: str = option(
        "a recorded stdout, which stands for every run; or a folder of <cell>-<repeat>.log, the cell as in"
        " `runner plan` with underscores for spaces, for example 1x2_backend=gloo-1.log",
        MISSING,
    )


class Replay(Target[LaunchSpec]):
    """Reads what was recorded."""

    name: ClassVar[str] = "replay"
    summary: ClassVar[str] = "a recorded stdout instead of a launch, for tests and demos"
    Options: ClassVar[type] = Options

    def spec(self, run: Run) -> LaunchSpec:
        """Name the recording of the run."""
        name = f"{str(run.cell).replace(' ', '_').replace('/', '_')}-{run.repeat}.log"
        nodes = [NodeSpec([], {}, processes) for processes in run.cell.layout.processes]
        return LaunchSpec(nodes, str(run.experiment.root), run.device, {**asdict(self.options), "name": name})

    def preflight(self, spec: LaunchSpec) -> None:
        """Look for the recording."""
        path = _recording(spec)
        try:
            files.open_file(path).close()
        except OSError as error:
            raise RequestError(f"{path}: no recording can be read there: {error.strerror}") from None

    def start(self, spec: LaunchSpec, folder: RunFolder) -> ReplayHandle:
        """Copy the recording to where the output of rank 0 goes."""
        return ReplayHandle(folder.keep_recording(_recording(spec)), len(spec.nodes))

    def cleanup(self, folder: RunFolder) -> None:
        """Do nothing: nothing was started."""


class ReplayHandle(Handle):
    """A recorded run; its launchers ended with 0, since nothing was launched."""

    def __init__(self, path: Path, nodes: int) -> None:
        self._path, self._nodes = path, nodes

    @property
    def exits(self) -> list[NodeExit]:
        """One good end for each node."""
        return [NodeExit(node, 0) for node in range(self._nodes)]

    def lines(self) -> Iterator[Line | Note | None]:
        """Yield the recorded lines."""
        lines = BoundedLines()
        with files.open_file(self._path) as file:
            while block := file.read(BLOCK_BYTES):
                yield from (Line(0, 0, text.rstrip(b"\r")) for text in lines.feed(block))
                yield None
        yield from (Line(0, 0, text.rstrip(b"\r")) for text in lines.finish())
        if lines.cut:
            yield Note(cut_note("the recording", lines.cut))

    def stop(self) -> None:
        """Do nothing: nothing runs."""


def _recording(spec: LaunchSpec) -> Path:
    path = Path(spec.options["recording"])
    return path / str(spec.options["name"]) if path.is_dir() else path
