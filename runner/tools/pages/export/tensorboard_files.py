"""Runs -> event files of TensorBoard, one a run: the curves, the figures, and the parameters for its HParams page.

The bytes follow from the record alone, so that writing them again changes nothing.
"""

import io
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.tools.pages.export.runs import ExportedRun
from trainkit.files import read_file, write_file

_LARGEST = 500_000_000
_HPARAMS = "hparams"
_STATUS = {"completed": "STATUS_SUCCESS", "running": "STATUS_RUNNING"}


def _import() -> Any:
    """Return the parts of TensorBoard that are needed here."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event  # an optional package
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter
    except ImportError:
        raise RequestError("the export to TensorBoard needs the package tensorboard: make report installs it") from None
    return SimpleNamespace(event=Event, summary=Summary, plugin=plugin_data_pb2, status=api_pb2, writer=RecordWriter)


def export(runs: Iterable[ExportedRun], folder: Path) -> tuple[int, int]:
    """Write `<folder>/<experiment>/<run>/events.out.tfevents...` of each run; return how many, and how many changed.

    A file that holds the same already is left as it is. RequestError if TensorBoard is not installed or the folder
    cannot be written.
    """
    library, done, changed = _import(), 0, 0
    for run in runs:
        path = folder / run.experiment / run.id / f"events.out.tfevents.{run.started_ms // 1000}.kit"
        data = event_file(run, library)
        try:
            if not _holds(path, data, folder):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_file(path, data, below=folder)
                changed += 1
        except OSError as error:
            raise RequestError(f"{one_line(path)}: {error.strerror or error}: name another folder with --to") from None
        done += 1
    return done, changed


def event_file(run: ExportedRun, library: Any) -> bytes:
    """Encode a run as TensorBoard reads it."""
    file = io.BytesIO()
    write = library.writer(file).write

    def put(step: int, time_ms: int, **what: Any) -> None:
        write(library.event(wall_time=time_ms / 1000, step=step, **what).SerializeToString(deterministic=True))

    def scalar(tag: str, step: int, value: float, time_ms: int) -> None:
        put(step, time_ms, summary=library.summary(value=[library.summary.Value(tag=tag, simple_value=value)]))

    put(0, run.started_ms, file_version="brain.Event:2")
    _put_parameters(run, library, put)
    for name, points in {**run.curves, **run.load}.items():
        for point in points:
            scalar(name.replace(".", "/", 1), point.step, point.value, point.time_ms)
    for name, value in run.metrics.items():
        scalar(f"run/{name}", 0, value, run.ended_ms)
    return file.getvalue()


def _put_parameters(run: ExportedRun, library: Any, put: Callable[..., None]) -> None:
    """Write the session that the page HParams shows: its parameters, and how it ended."""
    start = library.plugin.SessionStartInfo(group_name=run.id, start_time_secs=run.started_ms / 1000)
    for name, value in {**run.params, **run.tags}.items():
        start.hparams[name].string_value = value
    status = getattr(library.status, _STATUS.get(run.status, "STATUS_FAILURE"))
    end = library.plugin.SessionEndInfo(end_time_secs=run.ended_ms / 1000, status=status)
    for tag, content in (
        ("session_start_info", library.plugin.HParamsPluginData(session_start_info=start)),
        ("session_end_info", library.plugin.HParamsPluginData(session_end_info=end)),
    ):
        value = library.summary.Value(tag=f"_hparams_/{tag}")
        value.metadata.plugin_data.plugin_name = _HPARAMS
        value.metadata.plugin_data.content = content.SerializeToString(deterministic=True)
        put(0, run.ended_ms, summary=library.summary(value=[value]))


def _holds(path: Path, data: bytes, below: Path) -> bool:
    try:
        return read_file(path, _LARGEST, below=below) == data
    except FileNotFoundError:
        return False
