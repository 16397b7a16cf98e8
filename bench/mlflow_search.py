"""The same 10,000 runs searched in `results/` and in MLflow's SQLite store: equal questions, equal answers.

The kit reads the records of all runs for every question. MLflow's store has an index, and takes long for each run
that it finds: so the fewer a question finds, the better it does.
"""

import sqlite3
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from bench.summary import write_records
from runner.report.run_summary import RunSummary
from runner.tools.pages.export.runs import ExportedRun, Point

COUNT = 10_000
ROUNDS = 3


class Question(NamedTuple):
    """One question in both languages; the answer is the ids of the runs, the fastest first."""

    text: str
    ours: Callable[[RunSummary], bool]
    theirs: str


QUESTIONS = (
    Question("all", lambda _: True, ""),
    Question(
        "a quarter of them",
        lambda run: run.layout == "1x2" and (run.accuracy or 0) > 0.98,
        "params.layout = '1x2' and metrics.final_accuracy > 0.98",
    ),
    Question(
        "a hundredth of them",
        lambda run: run.layout == "2x4" and run.axes["variant"] == 3 and run.repeat == 1,
        "params.layout = '2x4' and params.variant = '3' and params.repeat = '1'",
    ),
)


def main() -> None:
    """Print how many times as long MLflow takes for each question; without MLflow, say how to install it."""
    if find_spec("mlflow") is None:
        print("mlflow: left out, because the package mlflow is not installed: make mlflow")
        return
    with tempfile.TemporaryDirectory() as folder:
        results, database = Path(folder, "results"), Path(folder, "runs.db")
        write_records(results, COUNT)
        client = _filled(results, database)
        numbers = [experiment.experiment_id for experiment in client.search_experiments()]
        said = []
        for question in QUESTIONS:
            pairs = [_pair(question, results, client, numbers) for _ in range(ROUNDS)]
            ours, theirs = (statistics.median(seconds) for seconds in zip(*pairs, strict=True))
            said.append(f"{question.text} {theirs / ours:.1f} times as long ({theirs:.2f} s, here {ours:.3f} s)")
    print(
        f"mlflow: to search {COUNT:,} runs, its SQLite store takes in CPU time for {'; '.join(said)} "
        f"(goal: no less for all), medians of {ROUNDS} pairs"
    )


def _pair(question: Question, results: Path, client: Any, numbers: list[str]) -> tuple[float, float]:
    """Ask both, one behind the other; SystemExit if the answers differ."""
    ours, found = _timed(lambda: _search(results, question.ours))
    theirs, others = _timed(lambda: _search_mlflow(client, numbers, question.theirs))
    if not found or sorted(found) != sorted(others) or len(found) != len(set(found)):
        raise SystemExit(f"mlflow: '{question.text}' finds {len(found)} runs here and {len(others)} there")
    return ours, theirs


def _search(results: Path, asked: Callable[[RunSummary], bool]) -> list[str]:
    """Read the folder as `runner summarize` does, and choose."""
    from runner.report.reading import read_results

    found = [run for run in read_results(results).runs if asked(run)]
    return [run.path.rpartition("/")[2] for run in sorted(found, key=lambda run: run.seconds or 0)]


def _search_mlflow(client: Any, numbers: list[str], asked: str) -> list[str]:
    order = ["metrics.train_seconds ASC"]
    found = client.search_runs(numbers, filter_string=asked, order_by=order, max_results=COUNT)
    return [run.info.run_name for run in found]


def _timed(search: Callable[[], list[str]]) -> tuple[float, list[str]]:
    began = time.process_time()
    found = search()
    return time.process_time() - began, found


def _filled(results: Path, database: Path) -> Any:
    """Put every run into an SQLite store: the first by `runner export`, the others as the rows that it would write."""
    from runner.tools.pages.export import mlflow_store
    from runner.tools.pages.export.runs import exported_runs

    uri = f"{mlflow_store.SQLITE}{database}"
    runs = list(exported_runs(results, None, []))
    mlflow_store.export(runs[:1], uri)
    from mlflow.tracking import MlflowClient  # an optional package, whose settings the export makes

    client = MlflowClient(tracking_uri=uri)
    numbers = {
        experiment.name: experiment.experiment_id
        for experiment in client.search_experiments()
        if experiment.name == runs[0].experiment
    }
    for name in sorted({run.experiment for run in runs} - set(numbers)):
        numbers[name] = client.create_experiment(name)
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.row_factory = sqlite3.Row
        template = dict(connection.execute("SELECT * FROM runs").fetchone())
        for table, rows in _tables(template, runs[1:], numbers):
            names = list(rows[0])
            marks = ", ".join(f":{name}" for name in names)
            connection.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", rows)  # noqa: S608
    counts = mlflow_store.export(runs, uri)
    if counts.unchanged != len(runs):
        raise SystemExit(f"mlflow: its store does not hold the runs as the export writes them: {counts}")
    return client


def _tables(
    template: dict[str, Any], runs: Iterable[ExportedRun], numbers: dict[str, str]
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Return the rows of runs, by table."""
    known = {uuid.uuid4().hex: run for run in runs}
    times = {key: (run.started_ms, run.ended_ms) for key, run in known.items()}
    yield (
        "runs",
        [
            template
            | {"run_uuid": key, "name": run.id, "experiment_id": int(numbers[run.experiment])}
            | {"start_time": times[key][0], "end_time": times[key][1]}
            for key, run in known.items()
        ],
    )
    tags = [
        {"key": name, "value": value, "run_uuid": key}
        for key, run in known.items()
        for name, value in {
            "kit.id": run.id,
            "kit.digest": run.digest,
            "mlflow.runName": run.id,
            **{f"kit.{name}": value for name, value in run.tags.items()},
        }.items()
    ]
    yield "tags", tags
    params = [(key, name, value) for key, run in known.items() for name, value in run.params.items()]
    yield "params", [{"key": name, "value": value, "run_uuid": key} for key, name, value in params]
    every = [
        {
            "key": name,
            "value": point.value,
            "timestamp": point.time_ms,
            "run_uuid": key,
            "step": point.step,
            "is_nan": 0,
        }
        for key, run in known.items()
        for name, points in _figures(run).items()
        for point in points
    ]
    yield "metrics", every
    yield "latest_metrics", list({(row["run_uuid"], row["key"]): row for row in every}.values())


def _figures(run: ExportedRun) -> dict[str, list[Point]]:
    """Return the curves of a run, and its figures as curves of one point."""
    return {**run.curves, **{name: [Point(0, value, run.ended_ms)] for name, value in run.metrics.items()}}
