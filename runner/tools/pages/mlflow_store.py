"""Runs -> MLflow: a tracking server or an SQLite file. A run that is there already is not written again."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from runner.core.errors import KitError, RequestError
from runner.core.output import require_outputs
from runner.core.text import one_line
from runner.tools.pages.exported import ExportedRun

SQLITE = "sqlite:///"
_SERVER = ("http://", "https://")
_CREDENTIALS = re.compile(r"(?<=//)[^/@\s]*@")
_MOST_METRICS = 1_000
_MOST_PARAMS = 100
_PAGE = 1_000
_ID, _DIGEST = "kit.id", "kit.digest"
_STATUS = {"completed": "FINISHED", "running": "RUNNING", "interrupted": "KILLED", "killed": "KILLED"}
# No report of how MLflow is used leaves the machine, and a server that does not answer ends the command soon.
_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "GIT_PYTHON_REFRESH": "quiet",
}


class Counts(NamedTuple):
    """What an export did: runs that were new, that took the place of an older state, and that were there already."""

    new: int = 0
    replaced: int = 0
    unchanged: int = 0


def export(runs: Iterable[ExportedRun], uri: str, say: Callable[[str], None] = lambda _: None) -> Counts:
    """Write runs to MLflow, each once: a run is known by its id, and its state by a digest, which are tags.

    The address is that of a tracking server, or `sqlite:///FILE`; `say` takes a line after every thousand runs.
    RequestError if MLflow is not installed, or the store cannot be reached, read or written.
    """
    _check(uri)
    _import()
    with _one_line_errors(uri):
        store = _Store(uri)
    for number, run in enumerate(runs, start=1):
        with _one_line_errors(uri):
            store.put(run)
        if number % _PAGE == 0:
            say(f"{number:,} runs")
    return Counts(**store.counts)


class _Store:
    """One MLflow store, and which runs of the kit it has."""

    def __init__(self, uri: str) -> None:
        from mlflow.tracking import MlflowClient  # an optional package

        self.counts: Counter[str] = Counter()
        self._client = MlflowClient(tracking_uri=uri)
        self._experiments: dict[str, str] = {}
        self._known: dict[str, dict[str, tuple[str, str]]] = {}

    def put(self, run: ExportedRun) -> None:
        """Write a run, unless it is there in the same state."""
        experiment = self._experiment(run.experiment)
        mlflow_id, digest = self._known[experiment].get(run.id, ("", ""))
        if digest == run.digest:
            self.counts["unchanged"] += 1
            return
        self._known[experiment][run.id] = self._write(experiment, run), run.digest
        if mlflow_id:
            self._client.delete_run(mlflow_id)
        self.counts["replaced" if mlflow_id else "new"] += 1

    def _experiment(self, name: str) -> str:
        """Find or create an experiment, and look which runs it has."""
        if name not in self._experiments:
            stored = self._client.get_experiment_by_name(name)
            if stored is not None and stored.lifecycle_stage != "active":
                msg = f"the experiment '{name}' is deleted there: mlflow experiments restore --experiment-id "
                raise RequestError(msg + one_line(stored.experiment_id))
            number = self._client.create_experiment(name) if stored is None else stored.experiment_id
            self._experiments[name] = number
            self._known[number] = dict(self._runs(number)) if stored is not None else {}
        return self._experiments[name]

    def _runs(self, experiment: str) -> Iterator[tuple[str, tuple[str, str]]]:
        """Yield the runs of the kit; of one that was cut off there is no digest, and it is written again."""
        token = None
        while True:
            page = self._client.search_runs([experiment], max_results=_PAGE, page_token=token)
            for run in page:
                if _ID in run.data.tags:
                    yield run.data.tags[_ID], (run.info.run_id, run.data.tags.get(_DIGEST, ""))
            token = page.token
            if not token:
                return

    def _write(self, experiment: str, run: ExportedRun) -> str:
        from mlflow.entities import Metric, Param

        tags = {_ID: run.id, **{f"kit.{name}": value for name, value in run.tags.items()}}
        if "commit" in run.tags:
            tags["mlflow.source.git.commit"] = run.tags["commit"]
        begun = self._client.create_run(experiment, start_time=run.started_ms, tags=tags, run_name=run.id)
        number = str(begun.info.run_id)
        params = [Param(name, value) for name, value in run.params.items()]
        metrics = [Metric(name, value, run.ended_ms, 0) for name, value in run.metrics.items()]
        points = [(name, point) for name, curve in run.curves.items() for point in curve]
        metrics += [Metric(name, point.value, point.time_ms, point.step) for name, point in points]
        for start in range(0, len(params), _MOST_PARAMS):
            self._client.log_batch(number, params=params[start : start + _MOST_PARAMS])
        for start in range(0, len(metrics), _MOST_METRICS):
            self._client.log_batch(number, metrics=metrics[start : start + _MOST_METRICS])
        if run.status != "running":
            self._client.set_terminated(number, _STATUS.get(run.status, "FAILED"), end_time=run.ended_ms)
        self._client.set_tag(number, _DIGEST, run.digest)  # last, for a run that was cut off has none
        return number


def without_credentials(uri: str) -> str:
    """Return an address as it may be printed."""
    return _CREDENTIALS.sub("***@", one_line(uri))


def _check(uri: str) -> None:
    """Refuse what is neither a server nor an SQLite file, before MLflow makes something of it."""
    if uri.startswith(_SERVER):
        return
    path = Path(uri.removeprefix(SQLITE))
    if not uri.startswith(SQLITE) or not path.name:
        msg = f"--output {without_credentials(uri)}: a tracking server is http://HOST:PORT, a file is {SQLITE}FILE"
        raise RequestError(msg)
    if not path.parent.is_dir():
        raise RequestError(f"--output {without_credentials(uri)}: there is no folder {one_line(path.parent)}")
    require_outputs([path])


def _import() -> None:
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        import_module("mlflow.tracking")
    except ImportError:
        raise RequestError("the export to MLflow needs the package mlflow: make mlflow installs it") from None


@contextmanager
def _one_line_errors(uri: str) -> Iterator[None]:
    """Turn whatever MLflow and the libraries below it raise into a line without passwords."""
    try:
        yield
    except KitError:
        raise
    except Exception as error:  # noqa: BLE001 - these libraries have no common class of errors
        words = str(error).split("\n", 1)[0] or type(error).__name__
        raise RequestError(f"MLflow at {without_credentials(uri)}: {without_credentials(words)[:300]}") from None
