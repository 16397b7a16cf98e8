"""A results folder from a stranger, or from a bad day: one bad record is a note, and nothing outside is touched."""

from __future__ import annotations

import io
import json
import os
import resource
import shutil
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from runner.core.errors import KitError, RequestError
from runner.core.layout import Layout
from runner.records import tally
from runner.records.events import Block, read_events
from runner.records.finalize import derive, finalize, reparse
from runner.records.folder import RunFolder, begin
from runner.records.parse import collect
from runner.records.schema import NodeExit, Outcome
from runner.report import formats
from runner.report.notes import notes as notes_of
from runner.report.reading import read_results
from runner.report.summarize import summarize

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.records import Make

FORGED = "x\n1x8  3  1.00  8.00  yes\x1b[2J\x1b]0;title\x07\x9b31m\u202e|<b>"


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """Every path below a folder with its size and time."""
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in sorted(folder.rglob("*"))}


def edited(run: Path, *place: str | int, value: object) -> None:
    """Put a value of a stranger's into a record."""
    record = json.loads((run / "run.json").read_bytes())
    target = record
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    (run / "run.json").write_text(json.dumps(record))


def all_formats(results: Path) -> tuple[list[dict[str, Any]], list[str], str]:
    blocks, notes = summarize(results)
    tables = [formats.to_table(block) for block in blocks]
    shown = [text for one in tables for text in (one.title, *one.common, *one.head, *one.notes)]
    shown += [cell for one in tables for line in one.lines for cell in line]
    texts = [formats.as_markdown(blocks), formats.as_csv(blocks), formats.as_json(blocks)]
    for text in (*shown, *notes, *"".join(texts).split("\n")):
        assert text.isprintable(), text
    json.loads(texts[2])
    return formats.to_rows(blocks), [*notes, *(note for one in tables for note in one.notes)], "\n".join(texts)


# -- links and special files


def foreign_folder(place: Path) -> Path:
    """Somebody else's folder, which looks like what torchrun leaves."""
    worker = place / "foreign" / "none_x" / "attempt_0" / "0"
    worker.mkdir(parents=True)
    (worker / "stdout.log").write_text("somebody else's words")
    (place / "foreign" / "empty").mkdir()
    return place / "foreign"


def link_node(folder: RunFolder, foreign: Path) -> None:
    folder.node(0).symlink_to(foreign)


def link_raw(folder: RunFolder, foreign: Path) -> None:
    shutil.rmtree(folder.raw)
    folder.raw.symlink_to(foreign)


def link_stdout(folder: RunFolder, foreign: Path) -> None:
    path = folder.raw / "node0-rank0.stdout"
    path.unlink(missing_ok=True)
    path.symlink_to(next(foreign.rglob("stdout.log")))


def link_launch(folder: RunFolder, foreign: Path) -> None:
    path = folder.path / "request" / "launch.json"
    path.rename(foreign / "launch.json")
    path.symlink_to(foreign / "launch.json")


def fifo(folder: RunFolder, _: Path) -> None:
    os.mkfifo(folder.raw / "node0-agent.log")
    os.mkfifo(folder.raw / "node0-exit.json")


def device(folder: RunFolder, _: Path) -> None:
    (folder.raw / "node0-rank0.stdout").unlink(missing_ok=True)
    (folder.raw / "node0-rank0.stdout").symlink_to("/dev/zero")
    (folder.raw / "node0-agent.log").symlink_to("/dev/zero")


def huge(folder: RunFolder, _: Path) -> None:
    with (folder.raw / "node0-rank0.stdout").open("wb") as file:
        file.truncate(2**40)


@pytest.mark.parametrize(
    "attack", [link_node, link_raw, link_stdout, link_launch, fifo, device, huge], ids=lambda one: one.__name__
)
@pytest.mark.parametrize("by_hand", [True, False], ids=["by hand", "supervised"])
def test_links_and_special_files_below_a_run_are_never_followed_moved_or_written_through(
    results: Path,
    tmp_path: Path,
    make: Make,
    attack: Callable[[RunFolder, Path], None],
    by_hand: bool,  # noqa: FBT001
) -> None:
    foreign = foreign_folder(tmp_path)
    make.run(results, 4.0)
    folder = begin(results, make.launch(by_hand=by_hand, runner={"host": os.uname().nodename, "pid": 1}), "", "")
    attack(folder, foreign)
    before, own = state(foreign), state(results)
    began = time.monotonic()
    rows, notes, _ = all_formats(results)
    assert sum(row["n"] for row in rows) == 1
    assert state(results) == own
    assert any(folder.path.name in note for note in notes)
    with_error = ""
    try:
        record = reparse(folder.path)
    except RequestError as error:
        with_error = str(error)
    else:
        assert record.doubts
        assert record.status != "completed"
    assert "\n" not in with_error
    assert state(foreign) == before
    assert time.monotonic() - began < 20


def test_a_link_to_a_record_a_run_or_an_experiment_is_a_note(results: Path, tmp_path: Path, make: Make) -> None:
    elsewhere = make.run(tmp_path / "elsewhere", 9.0).path
    make.run(results, 4.0)
    (results / "linked experiment").symlink_to(elsewhere.parent)
    (results / "tiny" / "linked-run").symlink_to(elsewhere)
    (results / "tiny" / "linked-record").mkdir()
    (results / "tiny" / "linked-record" / "run.json").symlink_to(elsewhere / "run.json")
    (results / "tiny" / "a-fifo").mkdir()
    os.mkfifo(results / "tiny" / "a-fifo" / "run.json")
    rows, notes, _ = all_formats(results)
    assert [row["seconds"] for row in rows] == [4.0]
    for name in ("linked experiment", "linked-run", "linked-record", "a-fifo"):
        assert sum(name in note and "left out" in note for note in notes) == 1, name
    for name in ("linked-run", "linked-record", "a-fifo"):
        with pytest.raises(RequestError):
            reparse(results / "tiny" / name)


def test_a_run_is_not_begun_outside_of_the_results_folder(results: Path, tmp_path: Path, make: Make) -> None:
    for name in ("../../x", "/x", "a/b", "", ".", "..", "x\n", "-x"):
        with pytest.raises(RequestError, match="is no name for a folder"):
            begin(results, make.launch(id=name), "", "")
    (tmp_path / "foreign").mkdir()
    results.mkdir()
    (results / "tiny").symlink_to(tmp_path / "foreign")
    with pytest.raises(RequestError, match="cannot be written: tiny is no folder, or a link"):
        begin(results, make.launch(), "", "")
    assert list((tmp_path / "foreign").iterdir()) == []


def test_a_run_that_is_there_already_is_not_removed_by_another_of_the_same_name(results: Path, make: Make) -> None:
    launch = make.launch()
    begin(results, launch, "", "")
    before = state(results)
    with pytest.raises(RequestError, match="cannot be written"):
        begin(results, launch, "", "")
    assert state(results) == before


def test_summarize_writes_nothing_below_results_not_even_for_a_run_that_was_started_by_hand(
    results: Path, make: Make
) -> None:
    folder = by_hand(results, make)
    before = state(results)
    for _ in range(2):
        rows, notes, _ = all_formats(results)
        assert [(row["n"], row["seconds"], row["started_by_hand"]) for row in rows] == [(1, 2.0, 1)]
        assert "1x1: started by hand, so no runner supervised it: 1 of 1 runs" in notes
    assert state(results) == before
    assert reparse(folder.path).status == "completed"
    assert folder.read().status == "completed"
    assert sorted(path.name for path in folder.raw.iterdir()) == [
        "node0-exit.json", "node0-rank0.stdout", "outcome.json",
    ]  # fmt: skip
    assert all_formats(results)[0][0]["seconds"] == 2.0


def by_hand(results: Path, make: Make, **changes: Any) -> RunFolder:
    folder = begin(results, make.launch(by_hand=True, **changes), "", "")
    worker = folder.node(0) / "none_x" / "attempt_0" / "0"
    worker.mkdir(parents=True)
    (worker / "stdout.log").write_bytes(make.lines(0, 2.0))
    folder.keep_exit(NodeExit(0, 0))
    return folder


def test_a_run_by_hand_that_still_runs_has_no_record_yet(results: Path, make: Make) -> None:
    folder = by_hand(results, make)
    with folder.held():
        assert derive(folder) is None
        assert finalize(folder) is None
        assert [run.status for run in read_results(results).runs] == ["running"]
        with pytest.raises(RequestError, match="it still runs"):
            reparse(folder.path)


# -- one bad record never stops the table

HUGE = 10**400
ODD_VALUES: dict[str, tuple[tuple[str | int, ...], object]] = {
    "a batch beyond 64 bits": (("facts", "global_batch_size"), 10**21),
    "a batch of 400 digits": (("facts", "global_batch_size"), HUGE),
    "no devices": (("ranks", 0, "facts", "devices"), 0),
    "many devices": (("ranks", 0, "facts", "devices"), 10**30),
    "1e308 seconds": (("metrics", "train_seconds"), 1e308),
    "negative seconds": (("metrics", "train_seconds"), -1),
    "an accuracy below 0": (("metrics", "final_accuracy"), -1),
    "an accuracy above 1": (("metrics", "final_accuracy"), 1.01),
    "many samples": (("epochs", 0, "trained_samples"), 2**63 - 1),
    "steps that are a list": (("epochs", 0, "steps"), [1]),
    "cores that are text": (("launch", "host", "cores"), "2"),
    "an arg of 400 digits": (("launch", "args", "lr"), HUGE),
    "an arg that is deep": (("launch", "args", "lr"), json.loads("[" * 300 + "]" * 300)),
    "an axis that is deep": (("launch", "axes", "lr"), json.loads("[" * 300 + "]" * 300)),
}


@pytest.mark.parametrize(("place", "value"), ODD_VALUES.values(), ids=ODD_VALUES)
def test_a_value_that_cannot_be_is_a_note_and_no_claim_rests_on_it(
    results: Path, make: Make, place: tuple[str | int, ...], value: object
) -> None:
    for seconds in (4.0, 4.1, 4.2):
        make.run(results, seconds)
        make.run(results, seconds / 2, layout="1x2")
    assert [row["claimed"] for row in formats.to_rows(summarize(results)[0])] == ["the baseline", True]
    run = min(results.glob("tiny/*"))
    edited(run, *place, value=value)
    rows, notes, _ = all_formats(results)
    assert any("doubtful" in note and run.name in note for note in notes), notes
    assert True not in [row["claimed"] for row in rows]


BAD_RECORDS: dict[str, tuple[tuple[str | int, ...], object]] = {
    "a layout": (("launch", "layout"), "9y9"),
    "a node beyond 64 bits": (("outcome", "exits"), [{"node": HUGE, "code": 0}]),
    "an exit code beyond 64 bits": (("outcome", "exits"), [{"node": 0, "code": 10**30}]),
    "a rank below 0": (("ranks", 0, "rank"), -1),
    "events of 400 digits": (("ranks", 0, "events_seen"), HUGE),
    "seconds of 400 digits": (("metrics", "train_seconds"), HUGE),
    "a status": (("status",), FORGED),
    "metrics": (("metrics",), []),
}


@pytest.mark.parametrize(("place", "value"), BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_a_record_that_cannot_be_read_is_a_note_and_the_others_are_the_table(
    results: Path, make: Make, place: tuple[str | int, ...], value: object
) -> None:
    bad = make.run(results, 9.0).path
    make.run(results, 4.0)
    edited(bad, *place, value=value)
    rows, notes, _ = all_formats(results)
    assert [row["seconds"] for row in rows] == [4.0]
    assert [note.startswith(f"{bad}/run.json: left out: ") for note in notes if bad.name in note] == [True]


def test_folders_that_cannot_be_read_or_are_not_utf_8_do_not_stop_the_table(
    results: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = make.run(results, 4.0).path
    odd.rename(odd.parent / os.fsdecode(b"\xff\xfe\nx"))
    hidden = make.run(results, 9.0).path
    scan = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    (results / "locked").mkdir()
    monkeypatch.setattr(os, "scandir", refuse)  # root may read everything
    (hidden / "run.json").unlink()
    (hidden / "run.json").mkdir()
    for _ in range(2):
        rows, notes, _ = all_formats(results)
        assert [row["seconds"] for row in rows] == [4.0]
        assert any("locked: left out: Permission denied" in note for note in notes)
        assert any(f"{hidden.name}/run.json: left out: it is no regular file" in note for note in notes)


def test_a_record_of_too_many_values_is_refused_before_it_fills_the_memory(results: Path, make: Make) -> None:
    run = make.run(results, 4.0).path
    (run / "run.json").write_bytes(b'{"launch": [' + b"[]," * 6_000_000 + b"[]]}")
    tracemalloc.start()
    _, notes, _ = all_formats(results)
    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()
    assert any("more than 2,000,000 values" in note for note in notes)


def broken_exit(folder: RunFolder) -> None:
    (folder.raw / "node0-exit.json").write_bytes(b'{"node": 0, "co')


def foreign_exit(folder: RunFolder) -> None:
    (folder.raw / "node0-exit.json").write_bytes(b'{"node": 999999999999, "code": 0}')


def no_zone(folder: RunFolder) -> None:
    path = folder.path / "request" / "launch.json"
    path.write_bytes(path.read_bytes().replace(b"+00:00", b""))


def no_time(folder: RunFolder) -> None:
    path = folder.path / "request" / "launch.json"
    path.write_bytes(path.read_bytes().replace(b"2026-11-21T", b"99999-11-21T"))


def far_future(folder: RunFolder) -> None:
    os.utime(next(folder.raw.rglob("stdout.log")), ns=(0, 2**62))


def huge_pid(folder: RunFolder) -> None:
    path = folder.path / "request" / "launch.json"
    path.write_bytes(path.read_bytes().replace(b'"pid": 1', b'"pid": ' + b"9" * 400))


def no_launch(folder: RunFolder) -> None:
    (folder.path / "request" / "launch.json").write_bytes(b'{"schema": 1')


@pytest.mark.parametrize(
    "damage",
    [broken_exit, foreign_exit, no_zone, no_time, far_future, huge_pid, no_launch],
    ids=lambda one: one.__name__,
)
def test_a_damaged_run_by_hand_is_summarised_or_noted_and_collected_or_refused(
    results: Path, make: Make, damage: Callable[[RunFolder], None]
) -> None:
    make.run(results, 4.0, layout="1x2")
    folder = by_hand(results, make)
    damage(folder)
    _, notes, _ = all_formats(results)
    assert any(folder.path.name in note for note in notes) or damage in (no_zone, far_future, huge_pid)
    try:
        record = reparse(folder.path)
    except RequestError as error:
        assert str(error).isprintable()
        assert damage in (no_time, no_launch)
    else:
        assert record.doubts or damage in (no_zone, far_future, huge_pid)
        assert all_formats(results)[0]


# -- doubts


def lines(*events: tuple[str, object, dict[str, object]], times: list[float] | None = None) -> bytes:
    """Event lines of rank 0, numbered, a tenth of a second apart."""
    return b"".join(
        b":::MLLOG "
        + json.dumps(
            {
                "time_ms": times[number] if times else 1_000 + 100 * number,
                "key": key,
                "value": value,
                "metadata": {"rank": 0, "seq": number, **fields},
            }
        ).encode()
        + b"\n"
        for number, (key, value, fields) in enumerate(events)
    )


START: tuple[str, object, dict[str, object]] = ("run_start", None, {"host": "here", "device_name": "Toy CPU"})
STATS: tuple[str, object, dict[str, object]] = ("tracked_stats", {"train_seconds": 2.0, "final_accuracy": 0.9}, {})
STOP: tuple[str, object, dict[str, object]] = ("run_stop", None, {"status": "success"})
ABORTED: tuple[str, object, dict[str, object]] = ("run_stop", None, {"status": "aborted"})
DOUBTFUL = {
    "negative seconds": (lines(START, ("tracked_stats", {"train_seconds": -2.0}, {}), STATS, STOP), "train_seconds -2"),
    "an accuracy of -1": (lines(START, STATS, ("eval_accuracy", -1, {}), STOP), "accuracy -1"),
    "an accuracy of 2": (lines(START, ("tracked_stats", {"final_accuracy": 2}, {}), STATS, STOP), "final_accuracy 2"),
    "a figure of 400 digits": (lines(START, ("tracked_stats", {"loss": HUGE}, {}), STATS, STOP), "loss beyond 10^15"),
    "a clock that goes back": (lines(START, STATS, STOP, times=[9e6, 1e6, 9.1e6]), "its clock runs backwards"),
    "a stop before the start": (lines(START, STATS, STOP, times=[9e6, 9e6, 1e6]), "stopped before it started"),
    "a number twice": (lines(START, STATS, STOP) + lines(START).replace(b"run_start", b"progress"), "came twice"),
    "two starts": (lines(START, START, STATS, STOP), "more than one run_start"),
    "two ends": (lines(START, STATS, ABORTED, STOP), "more than one run_stop: aborted, then success"),
    "a rank that can be none": (lines(START, STATS, ("progress", 1, {"rank": 10**9}), STOP), "which can be none"),
}


@pytest.mark.parametrize(("printed", "doubt"), DOUBTFUL.values(), ids=DOUBTFUL)
def test_a_doubtful_run_is_noted_and_no_claim_rests_on_it(
    results: Path, make: Make, printed: bytes, doubt: str
) -> None:
    same = {"torch": "None", "python": "None", "threads": None}
    for _ in range(3):
        make.run(results, stdout={0: lines(START, STATS, STOP)})
    good = lines(START, ("tracked_stats", {"train_seconds": 1.0, "final_accuracy": 0.9}, {}), STOP)
    for _ in range(3):
        make.run(results, stdout={0: good, 1: good.replace(b'"rank": 0', b'"rank": 1')}, layout="1x2", start=same)
    assert True in [row["claimed"] for row in formats.to_rows(summarize(results)[0])]
    bad = make.run(results, stdout={0: printed})
    assert any(doubt in said for said in bad.read().doubts), bad.read().doubts
    rows, notes, _ = all_formats(results)
    assert any("doubtful" in note and doubt in note for note in notes)
    assert True not in [row["claimed"] for row in rows]
    assert reparse(bad.path).doubts == bad.read().doubts


def test_runs_with_lr_nan_and_lr_inf_are_rows_of_their_own(results: Path, make: Make) -> None:
    for lr in (float("nan"), float("inf"), float("-inf"), 0.1):
        folder = make.run(results, args={"lr": lr}, axes={"lr": lr}, definition={"args": {"lr": lr}})
        assert json.loads((folder.path / "request" / "launch.json").read_bytes(), parse_constant=pytest.fail)
        assert folder.read().launch.args == {"lr": lr if lr == 0.1 else str(lr)}
    rows, _, _ = all_formats(results)
    assert [(row["axes"]["lr"], row["n"]) for row in rows] == [("-inf", 1), (0.1, 1), ("inf", 1), ("nan", 1)]


@pytest.mark.parametrize("because", ["the disk is full: raw/outcome.json", FORGED])
def test_what_stopped_a_run_is_its_reason_in_one_printable_line(results: Path, make: Make, because: str) -> None:
    outcome = Outcome(ended="", wall_seconds=1.0, exits=[NodeExit(0, None, "SIGKILL")], stopped_because=because)
    record = make.run(results, outcome=outcome).read()
    assert record.status == "failed"
    assert record.reason is not None
    assert record.reason.startswith(because.partition("\n")[0])
    assert record.reason.isprintable()


def test_without_an_outcome_nobody_says_that_the_runner_was_killed(results: Path, make: Make) -> None:
    folder = begin(results, make.launch(runner={"host": os.uname().nodename, "pid": 1, "pid_started": 0.0}), "", "")
    (folder.raw / "node0-rank0.stdout").write_bytes(make.lines(0, 2.0))
    said = "the runner did not record how the run ended: it was killed, or it could not write"
    _, notes, _ = all_formats(results)
    assert any(f"incomplete: {said}; runner collect reads what it left" in note for note in notes)
    record = reparse(folder.path)
    assert (record.status, record.reason) == ("incomplete", said)
    assert record.metrics["train_seconds"] == 2.0


def test_a_run_whose_outcome_is_known_and_whose_record_was_not_written_is_not_called_killed(
    results: Path, make: Make
) -> None:
    folder = begin(results, make.launch(runner={"host": os.uname().nodename, "pid": 1, "pid_started": 0.0}), "", "")
    (folder.raw / "node0-rank0.stdout").write_bytes(make.lines(0, 2.0))
    because = "the disk is full"
    folder.keep_outcome(Outcome(ended="", wall_seconds=1.0, exits=[NodeExit(0, 1)], stopped_because=because))
    _, notes, _ = all_formats(results)
    assert any(
        "the run ended and its record was not written; runner collect reads what it left" in one for one in notes
    )
    record = reparse(folder.path)
    assert (record.status, record.reason) == ("failed", because)


# -- no forged tables


def test_no_text_of_a_record_forges_a_row_or_reaches_a_terminal_raw(results: Path, make: Make) -> None:
    names = ["id", "experiment", "target", "program", "scaling", "measure", "device", "definition_sha256", "started"]
    for place in [("launch", name) for name in names] + [
        ("reason",),
        ("launch", "axes", "x"),
        ("launch", "args", FORGED),
        ("launch", "host", "cpu"),
        ("launch", "definition", "summary"),
        ("ranks", 0, "facts", "device_name"),
        ("ranks", 0, "facts", "torch"),
        ("launch", "image"),
    ]:
        shutil.rmtree(results, ignore_errors=True)
        run = make.run(results, 4.0, axes={"x": 1}).path
        edited(run, "status", value="failed" if place == ("reason",) else "completed")
        edited(run, *place, value={"id": FORGED} if place[-1] == "image" else FORGED)
        all_formats(results)
        (block,) = summarize(results)[0]
        assert len(formats.to_table(block).lines) == 1
        assert formats.as_csv([block]).count("\n") == 2
        assert sum(line.startswith("|") for line in formats.as_markdown([block]).split("\n")) == 3


def test_notes_of_published_rows_and_skips_are_printable(results: Path, make: Make) -> None:
    row = {"layout": "1x1", "hardware": FORGED, "total_seconds": 1.0, "note": FORGED}
    definition = {"skip": [{"why": FORGED, FORGED: FORGED}], "published": {"source": FORGED, "rows": [row]}}
    make.run(results, definition=definition)
    all_formats(results)
    (block,) = summarize(results)[0]
    assert len(notes_of(block)) == 3


def test_the_last_lines_of_a_failed_rank_are_printable_and_keep_their_indentation(results: Path, make: Make) -> None:
    folder = begin(results, make.launch(), "", "")
    (folder.raw / "node0-agent.log").write_text(f"Traceback\n    {FORGED}\n")
    outcome = Outcome(ended="", wall_seconds=1.0, exits=[NodeExit(0, 1)])
    failure = collect(folder, folder.launch(), outcome).failure
    assert failure is not None
    assert failure.last_lines[:2] == ["Traceback", "    x"]
    assert all(line.isprintable() for line in failure.last_lines)


# -- sizes


class Endless(io.RawIOBase):
    """A file of one byte, very often, with an event at its end."""

    def __init__(self, size: int, end: bytes, start: bytes = b"") -> None:
        self._rest, self._end, self._start = size, end, start

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._start:
            data, self._start = self._start, b""
            return data
        if self._rest:
            data = b"x" * min(size, self._rest)
            self._rest -= len(data)
            return data
        data, self._end = self._end, b""
        return data


@pytest.mark.parametrize("start", [b"", b':::MLLOG {"time_ms": 1, "key": "'], ids=["foreign", "event"])
def test_a_line_of_hundreds_of_megabytes_is_dropped_and_said_in_bounded_memory(start: bytes) -> None:
    end = b'\n:::MLLOG {"time_ms": 1, "key": "last"}\n:::MLLOG {torn\n'
    tracemalloc.start()
    blocks = list(read_events(Endless(300_000_000, end, start)))  # type: ignore[arg-type]
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()
    assert [event.key for block in blocks for event in block.events] == ["last"]
    assert sum(block.too_long for block in blocks) == (0 if start else 1)
    broken = [(one.line, one.reason) for block in blocks for one in block.malformed]
    assert broken[-1][0] == 3
    assert [reason for _, reason in broken[:-1]] == (["longer than 65,536 bytes"] if start else [])
    assert isinstance(blocks[0], Block)


def test_memory_does_not_grow_with_the_number_of_events(results: Path, make: Make) -> None:
    line = b':::MLLOG {"time_ms": 1, "key": "progress", "value": 5, "metadata": {"rank": 0}}\n'
    folder = begin(results, make.launch(), "", "")
    (folder.raw / "node0-rank0.stdout").write_bytes(line * 100_000 + b":::MLLOG {torn\n" * 100_000)
    tracemalloc.start()
    record = collect(folder, folder.launch(), None)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()
    assert record.events == {"seen": 100_000, "expected": 0, "malformed": 100_000}


def test_what_a_record_keeps_of_one_file_is_bounded(results: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "MOST_BYTES", 1_000_000)
    folder = begin(results, make.launch(), "", "")
    lists = "[" + ",".join(["[]"] * 5_000) + "]"
    printed = "".join(
        f':::MLLOG {{"time_ms": 1, "key": "{key}", "value": 1, "metadata": {{"epoch_num": {number}, "x": {lists}}}}}\n'
        for number in range(100)
        for key in ("epoch_stop", "eval_accuracy")
    )
    (folder.raw / "node0-rank0.stdout").write_text(printed)
    record = collect(folder, folder.launch(), None)
    assert "more facts than a record holds: the further ones are left out" in record.doubts
    assert len(msgspec.json.encode(record)) < 1_000_000


@pytest.mark.parametrize(
    "text",
    [
        "time :" * 20_000,
        "time" + " " * 200_000 + ":",
        ("time : x\n host" + " " * 50_000) * 4,
        "[" * 60_000 + "]:1: " * 10_000,
        "peer " * 40_000,
        ("time : x\nhost : y\nrank : 0 (local_rank: 0)\nexitcode : 1\n") * 4_000,
    ],
)
def test_the_agent_s_log_is_searched_in_linear_time(results: Path, make: Make, text: str) -> None:
    folder = begin(results, make.launch(), "", "")
    (folder.raw / "node0-agent.log").write_text(text)
    (folder.raw / "node0-rank0.stderr").write_text(text)
    began = time.process_time()
    collect(folder, folder.launch(), Outcome(ended="", wall_seconds=1.0, exits=[NodeExit(0, 1)]))
    assert time.process_time() - began < 2


def test_a_layout_of_65_536_nodes_is_collected_in_seconds(results: Path, make: Make) -> None:
    nodes = 65_536
    folder = begin(results, make.launch(layout=f"{nodes}x1", by_hand=True), "", "")
    (folder.raw / "node9-rank9.stdout").write_bytes(make.lines(9, 1.0))
    began = time.process_time()
    record = reparse(folder.path)
    assert time.process_time() - began < 10
    assert len(record.ranks) == nodes
    assert record.reason is not None
    assert len(record.reason) < 200
    assert RunFolder(folder.path).read().status == record.status == "killed"
    assert len(Layout.parse(record.launch.layout).processes) == nodes
    assert len(read_results(results).runs) == 1


def test_the_peak_of_these_tests_is_bounded() -> None:
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1_500_000  # KiB; pytest, hypothesis and SciPy included
    assert issubclass(RequestError, KitError)
