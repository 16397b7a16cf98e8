"""Records on the disk: whole or not at all, and never written twice."""

import json
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runner.core.errors import RequestError
from runner.records.folder import RunFolder, begin
from runner.records.listing import run_folders
from runner.records.schema import Record, read_record
from tests.support.records import Make


def test_a_run_is_kept_as_running_before_anything_is_started(weird_path: Path, make: Make) -> None:
    launch = make.launch()
    folder = begin(weird_path / "results", launch, "the request\n", "the diff é\udcff")
    assert sorted(path.name for path in folder.path.iterdir()) == ["artifacts", "raw", "request", "run.json"]
    assert (folder.read(), folder.launch()) == (Record(launch=launch, status="running"), launch)
    request = folder.path / "request"
    assert (request / "request.json").read_text() == "the request\n"
    assert (request / "code.diff").read_bytes() == b"the diff \xc3\xa9\xff"


def test_a_run_that_has_ended_is_never_written_again(tmp_path: Path, make: Make) -> None:
    folder = make.run(tmp_path)
    before = (folder.path / "run.json").read_bytes()
    with pytest.raises(RequestError, match="has ended"):
        folder.finish(Record(launch=make.launch(), status="failed"))
    assert (folder.path / "run.json").read_bytes() == before


def replace_for_ever(folder: RunFolder, records: list[Record], written: Any) -> None:
    while True:
        for record in records:
            folder.replace(record)
            written.release()


def test_a_kill_during_writing_leaves_one_of_the_two_records(tmp_path: Path, make: Make) -> None:
    folder = make.run(tmp_path)
    records = [folder.read(), msgspec.structs.replace(folder.read(), reason="x" * 100_000)]
    context = multiprocessing.get_context("fork")
    for writes in range(1, 9):
        written = context.Semaphore(0)
        writer = context.Process(target=replace_for_ever, args=(folder, records, written))
        writer.start()
        for _ in range(writes):
            written.acquire()
        os.kill(writer.pid or 0, signal.SIGKILL)
        writer.join()
        assert folder.read() in records


def test_an_invalid_record_is_refused_with_the_reason(tmp_path: Path, make: Make) -> None:
    good = (make.run(tmp_path).path / "run.json").read_bytes()
    newer = json.loads(good)
    newer["launch"]["schema"] = 2
    wrong = {
        b"": "broken or cut off",
        good[: len(good) // 2]: "broken or cut off",
        b'{"launch": {}}': "not a Record",
        json.dumps(newer).encode(): "newer",
        good.replace(b'"completed"', b'"x"'): "not a Record",
    }
    for data, why in wrong.items():
        with pytest.raises(ValueError, match=why) as caught:
            read_record(data)
        assert type(caught.value) is ValueError
    assert read_record(good).status == "completed"


def test_runs_are_found_below_results_and_below_one_experiment(tmp_path: Path, make: Make) -> None:
    runs = [make.run(tmp_path, experiment=name).path for name in ("a", "b", "b")]
    (tmp_path / "b" / "notes.txt").touch()
    left_out: list[str] = []
    for folder, below in ((tmp_path, runs), (tmp_path / "b", runs[1:]), (tmp_path / "nowhere", [])):
        assert [entry.path for entry in run_folders(folder, left_out)] == sorted(map(str, below))
    assert left_out == [f"{tmp_path}/nowhere: left out: No such file or directory"]
