"""`results/` -> summaries: a record that cannot be read is a note, a copy is no repeat, and nothing is written."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.core.errors import RequestError
from runner.records.folder import begin
from runner.records.parse import collect, reparse
from runner.records.provenance import describe_runner
from runner.records.schema import NodeExit, Outcome
from runner.report import formats
from runner.report.notes import notes as notes_of
from runner.report.summarize import read_results, summarize
from tests.report.hostile import FORGED, HUGE, all_formats, by_hand, edited, state
from tests.support.patience import quick
from tests.support.records import Make


@pytest.fixture
def results(weird_path: Path) -> Path:
    return weird_path / "results"


VALUES = {
    ("launch", "layout"): "9y9",
    ("launch", "schema"): 2,
    ("launch", "started"): "in the morning",
    ("outcome", "exits"): [{"node": HUGE, "code": 0}],
    ("metrics", "train_seconds"): HUGE,
    ("status",): FORGED,
}


def test_each_file_that_is_no_record_has_a_note_and_the_rest_is_summarised(results: Path, make: Make) -> None:
    make.run(results, 4.0)
    tiny = results / "tiny"
    for number, (place, value) in enumerate(VALUES.items()):
        edited(make.run(results, 9.0).path.rename(tiny / f"value-{number}"), *place, value=value)
    elsewhere = make.run(results.parent / "elsewhere", 9.0).path
    (results / "linked experiment").symlink_to(elsewhere.parent)
    (tiny / "linked-run").symlink_to(elsewhere)
    (tiny / "linked-record").mkdir()
    (tiny / "linked-record" / "run.json").symlink_to(elsewhere / "run.json")
    (tiny / "folder" / "run.json").mkdir(parents=True)
    (results / "a file").write_text("x")
    rows, _ = all_formats(results)
    _, notes = summarize(results)
    assert [row["seconds"] for row in rows] == [4.0]
    left_out = ["folder", *(f"value-{number}" for number in range(len(VALUES)))]
    left_out += ["linked experiment", "linked-run", "linked-record"]
    assert len(notes) == len(left_out), notes
    for name in left_out:
        assert sum(f"/{name}" in note and "left out" in note for note in notes) == 1, name
    assert "update the runner" in str(notes)


def test_folders_that_cannot_be_read_or_are_not_utf_8_do_not_stop_the_table(
    results: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = make.run(results, 4.0).path
    odd.rename(odd.parent / os.fsdecode(b"\xff\xfe\nx"))
    scan = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    (results / "locked").mkdir()
    monkeypatch.setattr(os, "scandir", refuse)  # root may read everything
    rows, notes = all_formats(results)
    assert [row["seconds"] for row in rows] == [4.0]
    assert "locked: left out: Permission denied" in str(notes)


def test_a_run_without_a_record_is_a_note_that_says_how_to_make_it(results: Path, make: Make) -> None:
    kept, other = make.run(results, 1.0), make.run(results, 2.0)
    (other.path / "run.json").unlink()
    runs, [note] = read_results(results)
    assert [run.path for run in runs] == [f"tiny/{kept.path.name}"]
    assert note.startswith(f"{other.path}: left out: ")
    assert "runner collect" in note


def test_a_folder_that_is_not_there_and_an_empty_one_say_how_to_make_a_first_run(results: Path) -> None:
    with pytest.raises(RequestError, match="there is no such folder"):
        summarize(results)
    results.mkdir()
    (results / "README.md").write_text("as in a fresh clone")
    blocks, (note,) = summarize(results)
    assert blocks == []
    assert "`runner`" in note


def test_one_experiment_can_be_chosen(results: Path, make: Make) -> None:
    make.run(results, 1.0)
    make.run(results, 2.0, experiment="other")
    assert [row["experiment"] for row in formats.to_rows(summarize(results, "other")[0])] == ["other"]
    with pytest.raises(RequestError, match="othr.*other"):
        summarize(results, "othr")


def test_a_record_that_says_running_is_so_while_its_runner_lives(results: Path, make: Make) -> None:
    own = describe_runner()
    runners = (own, {**own, "pid_started": own["pid_started"] - 100}, {**own, "host": "elsewhere"})
    folders = [begin(results, make.launch(runner=runner), "", "") for runner in runners]
    assert [run.status for run in read_results(results).runs] == ["running", "incomplete", "running"]
    for folder in (folders[0], folders[2]):
        with pytest.raises(RequestError, match="still lives"):
            reparse(folder.path)


def test_a_run_whose_raw_files_are_gone_keeps_its_row_and_is_not_parsed_into_nothing(results: Path, make: Make) -> None:
    folder = make.run(results, 4.0, runner={**describe_runner(), "pid_started": 0.0})
    shutil.rmtree(folder.raw)
    blocks, notes = summarize(results)
    assert ([row["seconds"] for row in formats.to_rows(blocks)], notes) == ([4.0], [])
    with pytest.raises(RequestError, match="raw files"):
        reparse(folder.path)
    assert folder.read().status == "completed"


def test_summarize_writes_nothing_below_results_not_even_for_a_run_that_was_started_by_hand(
    results: Path, make: Make
) -> None:
    folder = by_hand(results, make)
    with folder.held():
        assert [run.status for run in read_results(results).runs] == ["running"]
        with pytest.raises(RequestError, match="still runs"):
            reparse(folder.path)
    before = state(results)
    (row,), notes = all_formats(results)
    assert row["n"] == 0
    assert "runner collect" in str(notes)
    assert state(results) == before
    assert reparse(folder.path).status == folder.read().status == "completed"
    names = [path.name for path in folder.raw.iterdir()]
    assert sorted(names) == ["node0-exit.json", "node0-rank0.stdout", "outcome.json"]
    (row,), notes = all_formats(results)
    assert (row["n"], row["seconds"], row["started_by_hand"]) == (1, 2.0, 1)
    assert any("by hand" in note and "1 of 1 runs" in note for note in notes)


EXIT, LAUNCH = "raw/node0-exit.json", "request/launch.json"


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (EXIT, b"}", b""),
        (LAUNCH, b"2026-11-21T", b"99999-11-21T"),
        (LAUNCH, b"}", b""),
    ],
)
def test_a_damaged_run_by_hand_is_noted_and_collected_or_refused(
    results: Path, make: Make, path: str, old: bytes, new: bytes
) -> None:
    folder = by_hand(results, make)
    damaged = folder.path / path
    damaged.write_bytes(damaged.read_bytes().replace(old, new))
    assert any(folder.path.name in note for note in all_formats(results)[1])
    if path == EXIT:
        assert reparse(folder.path).doubts
    else:
        with pytest.raises(RequestError) as refused:
            reparse(folder.path)
        assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "place",
    [
        *(("launch", name) for name in ("id", "experiment", "target", "program", "scaling", "measure", "device")),
        *(("reason",), ("launch", "axes", "x"), ("launch", "args", FORGED), ("launch", "image", "id")),
    ],
)
def test_no_text_of_a_record_forges_a_row_or_reaches_a_terminal_raw(results: Path, make: Make, place: Any) -> None:
    run = make.run(results, 4.0, axes={"x": 1}, image={}).path
    edited(run, "status", value="failed" if place == ("reason",) else "completed")
    edited(run, *place, value=FORGED)
    all_formats(results)
    (block,) = summarize(results)[0]
    assert len(formats.to_table(block).lines) == 1
    assert formats.document("csv", [block]).count("\n") == 2
    assert sum(line.startswith("|") for line in formats.document("markdown", [block]).split("\n")) == 3


def test_a_run_is_not_begun_outside_of_the_results_folder_or_over_another(results: Path, make: Make) -> None:
    for name in ("../../x", "a/b", "", "-x"):
        with pytest.raises(RequestError, match="folder name"):
            begin(results, make.launch(id=name), "", "")
    launch = make.launch()
    begin(results, launch, "", "")
    before = state(results)
    for name in ("../../x", "a/b", "", "-x", launch.id):
        with pytest.raises(RequestError):
            begin(results, make.launch(id=name), "", "")
    assert state(results) == before


def test_copies_of_one_run_are_no_repeats_of_it(results: Path, make: Make) -> None:
    make.run(results, 10.0)
    make.run(results, 6.0, layout="1x2")
    for name in ("backup", "older backup"):
        shutil.copytree(results / "tiny", results / name)
    (found,) = summarize(results)[0]
    assert [len(row.runs) for row in found.rows] == [1, 1]
    assert "n = 1" in str(found.rows[1].claimed)
    for row in found.rows:
        assert f"{row.first.cell}: 2 copies" in str(notes_of(found))


def test_runs_that_somebody_gave_one_id_are_repeats_if_they_began_at_other_times(results: Path, make: Make) -> None:
    for place in ("tiny", "one", "two"):
        make.run(results, 10.0, id="imported")
        (results / "tiny").rename(results / f"{place} of three")
    (found,) = summarize(results)[0]
    assert (len(found.rows[0].runs), found.rows[0].copies) == (3, ())


AGENT_LOGS = [
    "time" + " " * 200_000 + ":",
    ("time : x\n host" + " " * 50_000) * 4,
    "[" * 60_000 + "]:1: " * 10_000,
    ("time : x\nhost : y\nrank : 0 (local_rank: 0)\nexitcode : 1\n") * 4_000,
    f"Traceback\n    {FORGED}\n",
]


@pytest.mark.parametrize("text", AGENT_LOGS)
def test_the_agent_s_log_is_searched_in_linear_time_and_its_last_lines_are_printable(
    results: Path, make: Make, text: str
) -> None:
    folder = begin(results, make.launch(), "", "")
    (folder.raw / "node0-agent.log").write_text(text)
    (folder.raw / "node0-rank0.stderr").write_text(text)
    with quick(20):
        failure = collect(folder, folder.launch(), Outcome(ended="", wall_seconds=1.0, exits=[NodeExit(0, 1)])).failure
    assert all(line.isprintable() for line in failure.last_lines)


_LOADED = """
import sys
from runner.report import summarize as reading
reading.summary_of = lambda *_: sys.exit(sum(name.split(".")[0] in ("runner", "trainkit") for name in sys.modules))
sys.argv = ["runner", "summarize", sys.argv[1]]
from runner.cli.app import app
app(standalone_mode=False)
"""


def test_few_modules_are_loaded_before_the_first_record(results: Path, make: Make) -> None:
    make.run(results, 1.0)
    assert 30 < subprocess.run([sys.executable, "-c", _LOADED, results], check=False).returncode <= 60
