"""Write runs to MLflow: to a tracking server or an SQLite file."""

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
# Send no telemetry, and give up soon if the server does not answer.
_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "GIT_PYTHON_REFRESH": "quiet",
}


class Counts(NamedTuple):
    """The numbers of runs that an export added, replaced or found unchanged. A run is replaced if it has changed."""

    new: int = 0
    replaced: int = 0
    unchanged: int = 0


def export(runs: Iterable[ExportedRun], uri: str, say: Callable[[str], None] = lambda _: None) -> Counts:
    """Write runs to MLflow, except runs that MLflow already has in the same state.

    In MLflow, tags store the id of a run and a digest of its state. `uri` is the address of a tracking server or
    `sqlite:///FILE`. `say` gets a line after every thousand runs. Raises RequestError if MLflow is not installed, or if
    the store cannot be reached, read or written.
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
    def __init__(self, uri: str) -> None:
        from mlflow.tracking import MlflowClient

        self.counts: Counter[str] = Counter()
        self._client = MlflowClient(tracking_uri=uri)
        self._experiments: dict[str, str] = {}
        self._known: dict[str, dict[str, tuple[str, str]]] = {}

    def put(self, run: ExportedRun) -> None:
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
        if name not in self._experiments:
            stored = self._client.get_experiment_by_name(name)
            if stored is not None and stored.lifecycle_stage != "active":
                msg = f"the experiment '{name}' is deleted; restore it: mlflow experiments restore --experiment-id "
                raise RequestError(msg + one_line(stored.experiment_id))
            number = self._client.create_experiment(name) if stored is None else stored.experiment_id
            self._experiments[name] = number
            self._known[number] = dict(self._runs(number)) if stored is not None else {}
        return self._experiments[name]

    def _runs(self, experiment: str) -> Iterator[tuple[str, tuple[str, str]]]:
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
        self._client.set_tag(number, _DIGEST, run.digest)  # last, so that a partly written run has no digest
        return number


def without_credentials(uri: str) -> str:
    """Return an address as one printable line with any credentials masked."""
    return _CREDENTIALS.sub("***@", one_line(uri))


def _check(uri: str) -> None:
    if uri.startswith(_SERVER):
        return
    path = Path(uri.removeprefix(SQLITE))
    if not uri.startswith(SQLITE) or not path.name:
        msg = f"--output {without_credentials(uri)}: use http://HOST:PORT for a server, or {SQLITE}FILE"
        raise RequestError(msg)
    if not path.parent.is_dir():
        raise RequestError(f"--output {without_credentials(uri)}: no such folder: {one_line(path.parent)}")
    require_outputs([path])


def _import() -> None:
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        import_module("mlflow.tracking")
    except ImportError:
        raise RequestError("the export to MLflow needs the package mlflow; install it with: make mlflow") from None


@contextmanager
def _one_line_errors(uri: str) -> Iterator[None]:
    try:
        yield
    except KitError:
        raise
    except Exception as error:  # noqa: BLE001 - these libraries have no common base class of errors
        words = str(error).split("\n", 1)[0] or type(error).__name__
        raise RequestError(f"MLflow at {without_credentials(uri)}: {without_credentials(words)[:300]}") from None
