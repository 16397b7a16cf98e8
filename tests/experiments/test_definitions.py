"""Every definition of the project runs: for one epoch, with one process and with several."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from runner.definitions.experiment import files
from tests.support.fork_server import command
from tests.support.projects import ROOT, complete
from tests.support.slow import slow_but
from tests.support.smallest import IMAGES, OTHERS, SMALLEST, Smallest


def test_every_definition_is_run_here() -> None:
    assert set(SMALLEST) == {path.stem for path in files(ROOT)}


@pytest.mark.parametrize("name", slow_but(["quickstart"], IMAGES))
def test_a_definition_trains_in_each_layout_and_counts_every_sample_once(name: str, tmp_path: Path) -> None:
    for record in run_small(name, IMAGES[name], tmp_path):
        assert [epoch["trained_samples"] for epoch in record["epochs"]] == [1438]
        assert sum(record["epochs"][0]["samples_by_rank"].values()) == 1438
        assert [test["samples"] for test in record["evaluations"]] == [359]
        assert len({rank["facts"]["threads"] for rank in record["ranks"]}) == 1
        nodes = {rank.get("node", 0) for rank in record["ranks"]}
        assert [sample["node"] for sample in record["load"]] == sorted(nodes)


@pytest.mark.parametrize("name", slow_but(["collectives", "resnet50", "script-mnist", "toy"], OTHERS))
def test_a_definition_without_images_has_its_measure(name: str, tmp_path: Path) -> None:
    for record in run_small(name, OTHERS[name], tmp_path):
        measure = record["launch"]["measure"].replace("sample_seconds", "wall_seconds")  # forks are not observed
        assert record["metrics"][measure] > 0
    if name == "network":
        printed = b"".join(path.read_bytes() for path in tmp_path.glob("network/*/raw/*.stdout"))
        assert printed.count(b'"between": "nodes"') == 2


@pytest.mark.slow
def test_a_trace_is_written_to_the_artifacts_of_its_run(tmp_path: Path) -> None:
    only = ["program=resnet50.whole", "micro_batches=1"]
    small = ["batch_size=2", "image_size=32", "batches=1", "warmup_batches=0", "profile=true"]
    [record] = run("resnet50", only, small, tmp_path)
    [trace] = tmp_path.glob("resnet50/*/artifacts/*.pt.trace.json")
    assert trace.parents[1].name == record["launch"]["id"]
    assert "aten::conv2d" in {event.get("name") for event in json.loads(trace.read_bytes())["traceEvents"]}
    [printed] = tmp_path.glob("resnet50/*/raw/*.stdout")
    keys = re.findall(r'"key": "(epoch_stop|profile_start|artifact)"', printed.read_text("utf-8"))
    assert keys == ["epoch_stop", "profile_start", "artifact"]  # the clock stops before


def need(data: str, missing: str) -> None:
    """Skip a test without its real data, or fail it if they are required."""
    if not (ROOT / "data" / data).is_dir():
        assert data not in os.environ.get("KIT_REQUIRE", ""), missing
        pytest.skip(missing)


@pytest.mark.mnist
def test_an_epoch_of_a100_ddp_reaches_95_percent_with_one_process_and_with_two(tmp_path: Path) -> None:
    need("mnist", "no real MNIST in data/mnist; `make data` fetches it")
    run("mnist", ["layout=1x1,1x2"], ["epochs=1"], tmp_path)
    rows = json.loads(complete([command("runner"), "summarize", tmp_path, "--format", "json"]).stdout)
    assert [row["layout"] for row in rows] == ["1x1", "1x2"]
    assert min(row["accuracy"] for row in rows) > 0.95


def run_small(name: str, small: Smallest, results: Path, *changes: str) -> list[dict[str, Any]]:
    """Run an experiment at its smallest, and assert that each layout has completed."""
    records = run(name, [f"layout={small.layouts}", *small.only], [*small.changes, *changes], results)
    assert {record["launch"]["layout"] for record in records} == set(small.layouts.split(","))
    assert {record["status"] for record in records} == {"completed"}
    return records


def run(name: str, only: list[str], changes: list[str], results: Path) -> list[dict[str, Any]]:
    """Run an experiment once on the CPU and return its records."""
    words = [word for cells in only for word in ("--only", cells)]
    words += [word for change in changes for word in ("--set", change)]
    words += ["--repeat", "1", "--device", "cpu", "--results", str(results)]
    done = complete([command("runner"), "run", name, *words], ROOT)
    assert done.code == 0, done.stderr
    return [json.loads(path.read_bytes()) for path in results.glob("*/*/run.json")]
