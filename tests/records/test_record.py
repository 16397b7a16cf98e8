"""Records on the disk: whole or not at all, and never written twice."""

import json
import multiprocessing
import os
import signal
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import msgspec
import pytest

from runner.core.errors import RequestError
from runner.records.folder import RunFolder, begin
from runner.records.listing import run_folders
from runner.records.schema import SCHEMA, Record, read_record
from tests.support.records import Make


def test_a_run_says_that_it_runs_before_anything_is_started(weird_path: Path, make: Make) -> None:
    launch = make.launch()
    folder = begin(weird_path / "results", launch, '{"what": "is asked"}\n', "the diff é\udcff")
    assert sorted(path.name for path in folder.path.iterdir()) == ["artifacts", "raw", "request", "run.json"]
    assert folder.read() == Record(launch=launch, status="running")
    assert folder.launch() == launch
    assert (folder.path / "request" / "request.json").read_text() == '{"what": "is asked"}\n'
    assert (folder.path / "request" / "code.diff").read_bytes() == b"the diff \xc3\xa9\xff"


def test_a_run_that_has_ended_is_never_written_again(tmp_path: Path, make: Make) -> None:
    folder = make.run(tmp_path)
    before = (folder.path / "run.json").read_bytes()
    with pytest.raises(RequestError, match="has ended"):
        folder.finish(Record(launch=make.launch(), status="failed"))
    assert (folder.path / "run.json").read_bytes() == before


def replace_for_ever(path: Path, records: list[Record], begun: Event) -> None:
    while True:
        for record in records:
            RunFolder(path).replace(record)
            begun.set()


def test_a_kill_in_the_middle_of_writing_leaves_one_of_the_two(tmp_path: Path, make: Make) -> None:
    folder = make.run(tmp_path)
    records = [folder.read(), msgspec.structs.replace(folder.read(), reason="x" * 100_000)]
    context = multiprocessing.get_context("fork")
    for attempt in range(8):
        begun = context.Event()
        writer = context.Process(target=replace_for_ever, args=(folder.path, records, begun))
        writer.start()
        begun.wait()
        time.sleep(attempt * 0.003)
        os.kill(writer.pid or 0, signal.SIGKILL)
        writer.join()
        assert folder.read() in records


def test_what_is_wrong_with_a_record_is_said(tmp_path: Path, make: Make) -> None:
    good = (make.run(tmp_path).path / "run.json").read_bytes()
    plain = json.loads(good)
    newer = {**plain, "launch": {**plain["launch"], "schema": SCHEMA + 1}}
    wrong = {
        b"": "broken or cut off",
        good[: len(good) // 2]: "broken or cut off",
        b'{"launch": {}}': "not a Record of this version",
        json.dumps(newer).encode(): "of a schema newer than this runner's 1: update the runner",
        good.replace(b'"completed"', b'"x"'): "not a Record of this version",
    }
    for data, words in wrong.items():
        with pytest.raises(ValueError, match=f"^{words}") as caught:
            read_record(data)
        assert type(caught.value) is ValueError
    assert read_record(good).status == "completed"


def test_runs_are_found_below_results_and_below_one_experiment(tmp_path: Path, make: Make) -> None:
    runs = [make.run(tmp_path, experiment=name).path for name in ("a", "b", "b")]
    (tmp_path / "b" / "notes.txt").write_text("no run")
    for folder, below in ((tmp_path, runs), (tmp_path / "b", runs[1:])):
        assert [entry.path for entry in run_folders(folder, [])] == sorted(map(str, below))
    left_out: list[str] = []
    assert list(run_folders(tmp_path / "nowhere", left_out)) == []
    assert left_out == [f"{tmp_path}/nowhere: left out: No such file or directory"]
