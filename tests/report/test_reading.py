"""`results/` -> summaries: a record that cannot be read is a note, and nothing is written."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.core.errors import RequestError
from runner.records.folder import RunFolder, begin
from runner.records.parse import collect, reparse
from runner.records.provenance import describe_runner
from runner.records.schema import NodeExit, Outcome
from runner.report import formats
from runner.report.summarize import read_results, summarize
from tests.report.hostile import FORGED, HUGE, all_formats, by_hand, edited, state
from tests.support.patience import patient, quick
from tests.support.records import Make


@pytest.fixture
def results(weird_path: Path) -> Path:
    return weird_path / "results"


def test_each_file_that_is_no_record_has_a_note_and_the_rest_is_summarised(results: Path, make: Make) -> None:
    good = make.run(results, 4.0)
    data = (good.path / "run.json").read_bytes()
    plain = json.loads(data)
    odd: dict[str, bytes | None] = {
        "d-newer": json.dumps({**plain, "launch": {**plain["launch"], "schema": 2}}).encode(),
        "f-folder": None,
    }
    for name, content in odd.items():
        path = results / "tiny" / name / "run.json"
        path.parent.mkdir()
        path.mkdir() if content is None else path.write_bytes(content)
    values: dict[tuple[str | int, ...], object] = {
        ("launch", "layout"): "9y9",
        ("outcome", "exits"): [{"node": HUGE, "code": 0}],
        ("metrics", "train_seconds"): HUGE,
        ("status",): FORGED,
        ("launch", "started"): "in the morning",
    }
    for number, (place, value) in enumerate(values.items()):
        path = make.run(results, 9.0).path.rename(results / "tiny" / f"value-{number:02}")
        edited(path, *place, value=value)
    elsewhere = make.run(results.parent / "elsewhere", 9.0).path
    (results / "linked experiment").symlink_to(elsewhere.parent)
    (results / "tiny" / "linked-run").symlink_to(elsewhere)
    (results / "tiny" / "linked-record").mkdir()
    (results / "tiny" / "linked-record" / "run.json").symlink_to(elsewhere / "run.json")
    (results / "a file").write_text("x")
    rows, _ = all_formats(results)
    _, notes = summarize(results)
    assert [row["seconds"] for row in rows] == [4.0]
    left_out = [*odd, *(f"value-{number:02}" for number in range(len(values)))]
    left_out += ["linked experiment", "linked-run", "linked-record"]
    assert len(notes) == len(left_out), notes
    for name in left_out:
        assert sum(f"/{name}" in note and "left out" in note for note in notes) == 1, name
    assert any("newer than this runner's 1: update the runner" in note for note in notes)


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
    assert any("locked: left out: Permission denied" in note for note in notes)


def test_a_run_without_a_record_is_a_note_that_says_how_to_make_it(results: Path, make: Make) -> None:
    kept, other = make.run(results, 1.0), make.run(results, 2.0)
    (other.path / "run.json").unlink()
    contents = read_results(results)
    assert [run.path for run in contents.runs] == [f"tiny/{kept.path.name}"]
    [note] = contents.notes
    assert note.startswith(f"{other.path}: left out: no run.json; make it with: runner collect ")


def test_a_folder_that_is_not_there_and_an_empty_one_say_how_to_make_a_first_run(results: Path) -> None:
    with pytest.raises(RequestError, match="there is no such folder; `runner` alone says"):
        summarize(results)
    results.mkdir()
    (results / "README.md").write_text("as in a fresh clone")
    blocks, (note,) = summarize(results)
    assert blocks == []
    assert "`runner` alone says" in note


def test_one_experiment_can_be_chosen(results: Path, make: Make) -> None:
    make.run(results, 1.0)
    make.run(results, 2.0, experiment="other")
    assert [row["experiment"] for row in formats.to_rows(summarize(results, "other")[0])] == ["other"]
    with pytest.raises(RequestError, match="no runs of 'othr'; did you mean 'other'"):
        summarize(results, "othr")


def test_a_record_that_says_running_is_so_while_its_runner_lives(results: Path, make: Make) -> None:
    own = describe_runner()
    runners = (own, {**own, "pid_started": own["pid_started"] - 100}, {**own, "host": "elsewhere"})
    folders = [begin(results, make.launch(runner=runner), "", "") for runner in runners]
    assert [run.status for run in read_results(results).runs] == ["running", "incomplete", "running"]
    for folder in (folders[0], folders[2]):
        with pytest.raises(RequestError, match="its runner still lives, or is on another machine"):
            reparse(folder.path)


def test_a_run_whose_raw_files_are_gone_keeps_its_row_and_is_not_parsed_into_nothing(results: Path, make: Make) -> None:
    folder = make.run(results, 4.0, runner={**describe_runner(), "pid_started": 0.0})
    shutil.rmtree(folder.raw)
    blocks, notes = summarize(results)
    assert ([row["seconds"] for row in formats.to_rows(blocks)], notes) == ([4.0], [])
    with pytest.raises(RequestError, match="its raw files are gone"):
        reparse(folder.path)
    assert folder.read().status == "completed"


def test_summarize_writes_nothing_below_results_not_even_for_a_run_that_was_started_by_hand(
    results: Path, make: Make
) -> None:
    folder = by_hand(results, make)
    with folder.held():
        assert [run.status for run in read_results(results).runs] == ["running"]
        with pytest.raises(RequestError, match="it still runs"):
            reparse(folder.path)
    before = state(results)
    rows, notes = all_formats(results)
    assert rows[0]["n"] == 0
    assert any("runner collect" in note for note in notes)
    assert state(results) == before
    assert reparse(folder.path).status == folder.read().status == "completed"
    names = [path.name for path in folder.raw.iterdir()]
    assert sorted(names) == ["node0-exit.json", "node0-rank0.stdout", "outcome.json"]
    rows, notes = all_formats(results)
    assert [(row["n"], row["seconds"], row["started_by_hand"]) for row in rows] == [(1, 2.0, 1)]
    assert "1x1: started by hand, so no runner supervised it: 1 of 1 runs" in notes


def altered(path: str, old: bytes, new: bytes) -> Callable[[RunFolder], object]:
    """Replace what a file of a run holds; all of it, if `old` is empty."""

    def damage(folder: RunFolder) -> None:
        data = (folder.path / path).read_bytes()
        (folder.path / path).write_bytes(data.replace(old, new) if old else new)

    return damage


EXIT, LAUNCH = "raw/node0-exit.json", "request/launch.json"
DAMAGES: dict[str, tuple[Callable[[RunFolder], object], bool]] = {
    "a broken exit": (altered(EXIT, b"", b'{"node": 0, "co'), False),
    "no time": (altered(LAUNCH, b"2026-11-21T", b"99999-11-21T"), True),
    "no launch": (altered(LAUNCH, b"", b'{"schema": 1'), True),
}
"""How a run is damaged, and whether it is refused to make its record."""


@pytest.mark.parametrize(("damage", "is_refused"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_run_by_hand_is_noted_and_collected_or_refused(
    results: Path, make: Make, damage: Callable[[RunFolder], object], is_refused: bool
) -> None:
    folder = by_hand(results, make)
    damage(folder)
    assert any(folder.path.name in note for note in all_formats(results)[1])
    if is_refused:
        with pytest.raises(RequestError) as refused:
            reparse(folder.path)
        assert str(refused.value).isprintable()
    else:
        assert reparse(folder.path).doubts


def test_no_text_of_a_record_forges_a_row_or_reaches_a_terminal_raw(results: Path, make: Make) -> None:
    names = ["id", "experiment", "target", "program", "scaling", "measure", "device"]
    for place in [("launch", name) for name in names] + [
        ("reason",),
        ("launch", "axes", "x"),
        ("launch", "args", FORGED),
        ("launch", "image"),
    ]:
        shutil.rmtree(results, ignore_errors=True)
        run = make.run(results, 4.0, axes={"x": 1}).path
        edited(run, "status", value="failed" if place == ("reason",) else "completed")
        edited(run, *place, value={"id": FORGED} if place[-1] == "image" else FORGED)
        all_formats(results)
        (block,) = summarize(results)[0]
        assert len(formats.to_table(block).lines) == 1
        assert formats.document("csv", [block]).count("\n") == 2
        assert sum(line.startswith("|") for line in formats.document("markdown", [block]).split("\n")) == 3


def test_a_run_is_not_begun_outside_of_the_results_folder_or_over_another(results: Path, make: Make) -> None:
    for name in ("../../x", "a/b", "", "-x"):
        with pytest.raises(RequestError, match="is no name for a folder"):
            begin(results, make.launch(id=name), "", "")
    launch = make.launch()
    begin(results, launch, "", "")
    before = state(results)
    with pytest.raises(RequestError, match="cannot be written"):
        begin(results, launch, "", "")
    assert state(results) == before


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
    with quick(patient(2)):
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
