"""Runs for other tools: their own readers find what the records hold, and a repeated export changes nothing."""

import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.core.errors import RequestError
from runner.tools.pages import mlflow_store
from runner.tools.pages.exported import ExportedRun, exported_runs, safe_name
from tests.report.hostile import FORGED, edited
from tests.support.records import Make

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


@pytest.fixture
def results(results: Path, make: Make) -> Path:
    """Three complete runs, and one that failed."""
    for layout, seconds in (("1x1", 10.0), ("1x2", 6.0), ("1x2", 6.25)):
        make.run(results, seconds, accuracy=0.75, layout=layout, axes={"lr": -1.5}, experiment="tiny")
    make.run(results, stdout={0: b"nothing"}, experiment="odd")
    return results


def runs(results: Path, experiment: str | None = None) -> list[ExportedRun]:
    notes = []
    found = list(exported_runs(results, experiment, notes))
    assert notes == []
    return found


def test_a_run_is_exported_with_its_parameters_figures_and_curves(results: Path) -> None:
    failed, first, second, _ = runs(results)
    assert first.params == {
        "epochs": "1", "seed": "1", "lr": "-1.5", "layout": "1x1", "target": "local", "device": "cpu",
        "program": "toys.ok", "scaling": "strong", "repeat": "1",
    }  # fmt: skip
    assert (first.metrics["train_seconds"], first.metrics["final_accuracy"]) == (10.0, 0.75)
    for name, value in (("epoch.train_seconds", 10.0), ("eval.accuracy", 0.75)):
        assert first.curves[name] == [(1, value, first.started_ms + 10_000)]
    assert second.curves["eval.accuracy"][0].time_ms == second.started_ms + 6000
    assert first.started_ms < first.ended_ms
    assert (failed.experiment, failed.status, failed.curves) == ("odd", "incomplete", {})
    assert "run_stop" in failed.tags["reason"]
    assert [run.id for run in runs(results, "odd")] == [failed.id]


def test_an_experiment_that_has_no_runs_is_refused_and_a_broken_record_is_a_note(results: Path) -> None:
    with pytest.raises(RequestError, match="tony.*tiny"):
        list(exported_runs(results, "tony", []))
    broken = next(results.glob("odd/*")) / "run.json"
    broken.write_text("{")
    notes = []
    assert len(list(exported_runs(results, None, notes))) == 3
    assert [note.startswith(f"{broken}: left out: ") for note in notes] == [True]


@pytest.mark.parametrize("name", ["../../etc", "", FORGED, "é" * 500])
def test_a_name_is_no_path_and_shows_nothing_else(name: str) -> None:
    safe = safe_name(name)
    assert safe.strip(".")
    assert len(safe) <= 210
    assert not set(safe) & set("/\\\n\x1b:")
    assert (Path("/base") / safe).resolve().parent == Path("/base")


def test_without_mlflow_the_way_to_install_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [module for module in sys.modules if module.partition(".")[0] == "mlflow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(RequestError, match="make mlflow"):
        mlflow_store.export([], f"sqlite:///{tmp_path}/x.db")


@pytest.mark.parametrize("uri", ["runs.db", "ftp://me" + ":secret@host/x", "sqlite:////nowhere/x.db"])
def test_what_is_no_store_is_refused_before_mlflow_is_imported(uri: str) -> None:
    with pytest.raises(RequestError, match="--output ") as refused:
        mlflow_store.export([], uri)
    assert "secret" not in str(refused.value)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)  # MLflow names a folder for artifacts in the current one
    return f"sqlite:///{tmp_path}/runs.db"


def found_in(uri: str, experiment: str) -> list[Any]:
    """What MLflow's own client finds of an experiment, the oldest run first."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    number = client.get_experiment_by_name(experiment).experiment_id
    return list(client.search_runs([number], order_by=["attributes.run_name ASC"]))


@pytest.mark.mlflow
def test_mlflow_finds_every_run_once_with_its_parameters_figures_and_curves(results: Path, store: str) -> None:
    from mlflow.tracking import MlflowClient

    assert mlflow_store.export(runs(results), store) == (4, 0, 0)
    assert mlflow_store.export(runs(results), store) == (0, 0, 4)
    for run, theirs in zip(runs(results, "tiny"), found_in(store, "tiny"), strict=True):
        info = theirs.info
        assert (info.run_name, info.status) == (run.id, "FINISHED")
        assert (info.start_time, info.end_time, theirs.data.params) == (run.started_ms, run.ended_ms, run.params)
        assert run.metrics.items() <= theirs.data.metrics.items()
        for name, points in run.curves.items():
            history = MlflowClient(tracking_uri=store).get_metric_history(info.run_id, name)
            assert [(at.step, at.value, at.timestamp) for at in history] == [tuple(point) for point in points]
    assert [run.info.status for run in found_in(store, "odd")] == ["FAILED"]


@pytest.mark.mlflow
def test_a_changed_run_takes_the_place_of_the_old_one_and_one_that_was_cut_off_is_written_again(
    results: Path, store: str, tmp_path: Path
) -> None:
    mlflow_store.export(runs(results), store)
    edited(min(results.glob("tiny/*")), "metrics", "train_seconds", value=11.0)
    assert mlflow_store.export(runs(results), store) == (0, 1, 3)
    assert [run.data.metrics["train_seconds"] for run in found_in(store, "tiny")] == [11.0, 6.0, 6.25]
    with sqlite3.connect(tmp_path / "runs.db") as database:
        database.execute("DELETE FROM tags WHERE key = 'kit.digest'")
    assert mlflow_store.export(runs(results), store) == (0, 4, 0)
    assert len(found_in(store, "tiny")) == 3


@pytest.mark.mlflow
def test_mlflow_takes_whatever_a_stranger_s_record_holds(results: Path, store: str) -> None:
    run = min(results.glob("tiny/*"))
    edited(run, "launch", "experiment", value="../../out")
    edited(run, "launch", "args", value={"../x": FORGED, "": 1, **{f"arg{number}": "v" for number in range(250)}})
    edited(run, "epochs", value=[{"epoch_num": number, "loss": 1e308} for number in range(1_500)])
    assert mlflow_store.export(runs(results), store) == (4, 0, 0)
    assert mlflow_store.export(runs(results), store) == (0, 0, 4)


@pytest.mark.mlflow
@pytest.mark.parametrize("is_database", [False, True])
def test_a_store_that_cannot_be_used_is_one_line(is_database: bool, results: Path, store: str, tmp_path: Path) -> None:
    if is_database:
        mlflow_store.export(runs(results), store)
        with sqlite3.connect(tmp_path / "runs.db") as database:
            database.execute("UPDATE alembic_version SET version_num = 'x'")
    else:
        (tmp_path / "runs.db").write_bytes(b"SQLite format 3\x00and then nothing")
    with pytest.raises(RequestError) as caught:
        mlflow_store.export(runs(results), store.replace("runs.db", "./runs.db"))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
