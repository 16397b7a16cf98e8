"""`results/` -> summaries, whatever lies in the folder."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runner.core.errors import RequestError
from runner.records.finalize import reparse
from runner.records.folder import begin
from runner.records.provenance import describe_runner
from runner.report import formats as report
from runner.report.reading import read_results
from runner.report.summarize import summarize
from tests.report.hostile import FORGED, HUGE, all_formats, edited
from tests.support.records import Make


@pytest.fixture
def results(weird_path: Path) -> Path:
    return weird_path / "results"


def test_each_file_that_is_no_record_has_a_note_and_the_rest_is_summarised(results: Path, make: Make) -> None:
    good = make.run(results, 4.0)
    data = (good.path / "run.json").read_bytes()
    plain = json.loads(data)
    odd: dict[str, bytes | None] = {
        "a-torn": data[:300],
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
        ("ranks", 0, "rank"): -1,
        ("ranks", 0, "events_seen"): HUGE,
        ("metrics", "train_seconds"): HUGE,
        ("status",): FORGED,
        ("metrics",): [],
        ("facts", "global_batch_size"): 10**21,
        ("ranks", 0, "facts", "devices"): "two",
        ("epochs", 0, "steps"): [1],
        ("launch", "host", "cores"): "2",
        ("launch", "started"): "in the morning",
    }
    for number, (place, value) in enumerate(values.items()):
        path = make.run(results, 9.0).path.rename(results / "tiny" / f"value-{number:02}")
        edited(path, *place, value=value)
    (results / "tiny" / "k-link").mkdir()
    (results / "tiny" / "k-link" / "run.json").symlink_to("nowhere")
    (results / "tiny" / "k-link" / "raw").mkdir()
    (results / "a file").write_text("x")
    rows, _ = all_formats(results)
    _, notes = summarize(results)
    assert [row["seconds"] for row in rows] == [4.0]
    assert len(notes) == len(odd) + len(values) + 1, notes
    for name in [*odd, *(f"value-{number:02}" for number in range(len(values))), "k-link"]:
        assert sum(f"/{name}" in note and "left out" in note for note in notes) == 1, name
    assert any("newer than this runner's 1: update the runner" in note for note in notes)


def test_a_run_without_a_record_is_a_note_that_says_how_to_make_it(results: Path, make: Make) -> None:
    kept, other = make.run(results, 1.0), make.run(results, 2.0)
    (other.path / "run.json").unlink()
    contents = read_results(results)
    assert [run.path for run in contents.runs] == [f"tiny/{kept.path.name}"]
    [note] = contents.notes
    assert note.startswith(f"{other.path}: left out: no run.json; make it with: runner collect ")


def test_a_folder_that_is_not_there_and_an_empty_one_say_how_to_make_a_first_run(results: Path) -> None:
    with pytest.raises(RequestError, match="there is no such folder; `runner` alone says how to make a first one"):
        summarize(results)
    results.mkdir()
    (results / "README.md").write_text("as in a fresh clone")
    blocks, notes = summarize(results)
    assert blocks == []
    assert len(notes) == 1
    assert "`runner` alone says how to make a first one" in notes[0]


def test_one_experiment_can_be_chosen(results: Path, make: Make) -> None:
    make.run(results, 1.0)
    make.run(results, 2.0, experiment="other")
    assert [row["experiment"] for row in report.to_rows(summarize(results, "other")[0])] == ["other"]
    with pytest.raises(RequestError, match="no runs of 'othr'; did you mean 'other'"):
        summarize(results, "othr")


def test_a_record_that_says_running_is_so_while_its_runner_lives(results: Path, make: Make) -> None:
    own = describe_runner()
    for runner in (own, {**own, "pid_started": own["pid_started"] - 100}, {**own, "host": "elsewhere"}):
        begin(results, make.launch(runner=runner), "", "")
    assert [run.status for run in read_results(results).runs] == ["running", "incomplete", "running"]


def test_a_run_of_a_living_runner_is_not_parsed_again(results: Path, make: Make) -> None:
    own = describe_runner()
    for runner in (own, {**own, "host": "elsewhere"}):
        with pytest.raises(RequestError, match="its runner still lives, or is on another machine"):
            reparse(begin(results, make.launch(runner=runner), "", "").path)
    with pytest.raises(RequestError, match="no run's folder: it has no launch.json"):
        reparse(results)


def test_a_run_whose_raw_files_are_gone_keeps_its_row_and_is_not_parsed_into_nothing(results: Path, make: Make) -> None:
    folder = make.run(results, 4.0, runner={**describe_runner(), "pid_started": 0.0})
    shutil.rmtree(folder.raw)
    blocks, notes = summarize(results)
    assert ([row["seconds"] for row in report.to_rows(blocks)], notes) == ([4.0], [])
    with pytest.raises(RequestError, match="its raw files are gone: there is nothing to parse"):
        reparse(folder.path)
    assert folder.read().status == "completed"


_LOADED = """
import sys
from runner.report import reading
reading.summary_of = lambda *_: sys.exit(sum(name.split(".")[0] in ("runner", "trainkit") for name in sys.modules))
sys.argv = ["runner", "summarize", sys.argv[1]]
from runner.cli.app import app
app(standalone_mode=False)
"""


def test_few_modules_are_loaded_before_the_first_record(results: Path, make: Make) -> None:
    make.run(results, 1.0)
    assert 30 < subprocess.run([sys.executable, "-c", _LOADED, results], check=False).returncode <= 60
