"""`results/` -> summaries, whatever lies in the folder."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.core.errors import RequestError
from runner.records.finalize import reparse
from runner.records.folder import begin
from runner.records.provenance import describe_runner
from runner.report import formats as report
from runner.report.reading import read_results
from runner.report.summarize import summarize
from tests.support.records import Make


@pytest.fixture
def results(weird_path: Path) -> Path:
    return weird_path / "results"


def seen(results: Path) -> list[tuple[str, str, float | None]]:
    return [(one.path, one.status, one.seconds) for one in read_results(results).runs]


def test_each_file_that_is_no_record_has_a_note_and_the_rest_is_summarised(results: Path, make: Make) -> None:
    good = make.run(results, 4.0)
    data = (good.path / "run.json").read_bytes()
    plain = json.loads(data)
    odd: dict[str, bytes | None] = {
        "a-torn": data[:300],
        "b-empty": b"",
        "c-foreign": b'{"name": "package", "version": "1.0"}',
        "d-newer": json.dumps({**plain, "launch": {**plain["launch"], "schema": 2}}).encode(),
        "e-unreadable": b"\xff\xfe\x00",
        "f-folder": None,
        "g-layout": data.replace(b'"layout": "1x1"', b'"layout": "9y9"'),
        "h-list": b"[]",
    }
    for name, content in odd.items():
        path = results / "tiny" / name / "run.json"
        path.parent.mkdir()
        path.mkdir() if content is None else path.write_bytes(content)
    (results / "tiny" / "k-link").mkdir()
    (results / "tiny" / "k-link" / "run.json").symlink_to("nowhere")
    (results / "tiny" / "k-link" / "raw").mkdir()
    (results / "a file").write_text("x")
    blocks, notes = summarize(results)
    assert [row["seconds"] for row in report.to_rows(blocks)] == [4.0]
    assert len(notes) == len(odd) + 1, notes
    assert all("\n" not in note for note in notes)
    for name in [*odd, "k-link"]:
        assert sum(f"/{name}" in note and "left out" in note for note in notes) == 1, name
    assert any("newer than this runner's 1: update the runner" in note for note in notes)


def test_a_run_without_a_record_is_a_note_that_says_how_to_make_it(results: Path, make: Make) -> None:
    kept, other = make.run(results, 1.0), make.run(results, 2.0)
    (other.path / "run.json").unlink()
    contents = read_results(results)
    assert [run.path for run in contents.runs] == [f"tiny/{kept.path.name}"]
    [note] = contents.notes
    assert note.startswith(f"{other.path}: left out: no run.json; make it with: runner collect ")


def test_a_run_whose_raw_files_were_deleted_keeps_its_row(results: Path, make: Make) -> None:
    shutil.rmtree(make.run(results, 4.0).raw)
    blocks, notes = summarize(results)
    assert [row["seconds"] for row in report.to_rows(blocks)] == [4.0]
    assert notes == []


def test_a_folder_that_is_not_there_and_an_empty_one_say_how_to_make_a_first_run(results: Path) -> None:
    with pytest.raises(RequestError, match="there is no such folder; make a first run with: runner run quickstart"):
        summarize(results)
    results.mkdir()
    (results / "README.md").write_text("as in a fresh clone")
    blocks, notes = summarize(results)
    assert blocks == []
    assert len(notes) == 1
    assert "make a first one with: runner run quickstart" in notes[0]


def test_one_experiment_can_be_chosen(results: Path, make: Make) -> None:
    make.run(results, 1.0)
    make.run(results, 2.0, experiment="other")
    assert [row["experiment"] for row in report.to_rows(summarize(results, "other")[0])] == ["other"]
    with pytest.raises(RequestError, match="no runs of 'othr'; did you mean 'other'"):
        summarize(results, "othr")


def test_results_are_the_same_when_copied_elsewhere(results: Path, make: Make, tmp_path: Path) -> None:
    for seconds in (1.0, 1.1, 1.2):
        make.run(results, seconds)
        make.run(results, seconds / 2, layout="1x2")
    shutil.copytree(results, tmp_path / "copy")
    assert report.document("json", summarize(results)[0]) == report.document("json", summarize(tmp_path / "copy")[0])


def test_a_record_that_says_running_is_so_while_its_runner_lives(results: Path, make: Make) -> None:
    own = describe_runner()
    for runner in (
        own,
        {**own, "pid_started": own["pid_started"] - 100},
        {**own, "host": "elsewhere"},
        {**own, "pid": "x"},
    ):
        begin(results, make.launch(runner=runner), "", "")
    assert [status for _, status, _ in seen(results)] == ["running", "incomplete", "running", "incomplete"]


def test_a_run_of_a_living_runner_is_not_parsed_again(results: Path, make: Make) -> None:
    own = describe_runner()
    for runner in (own, {**own, "host": "elsewhere"}):
        with pytest.raises(RequestError, match="its runner still lives, or is on another machine"):
            reparse(begin(results, make.launch(runner=runner), "", "").path)
    with pytest.raises(RequestError, match="no run's folder: it has no launch.json"):
        reparse(results)


def test_a_run_whose_raw_files_are_gone_is_not_parsed_into_nothing(results: Path, make: Make) -> None:
    folder = make.run(results, 4.0, runner={**describe_runner(), "pid_started": 0.0})
    shutil.rmtree(folder.raw)
    with pytest.raises(RequestError, match="its raw files are gone or behind a link: there is nothing to parse"):
        reparse(folder.path)
    assert folder.read().status == "completed"


ROW = {"layout": "1x2", "hardware": "1x A", "total_seconds": 5.0, "speedup": 2.0, "val_loss": [1.0, 2.0]}
ODD = {
    "summary": "s",
    "matrix": {},
    "skip": [{}],
    "baseline": {"layout": 1},
    "published": {"source": "s", "rows": [ROW]},
}
WORDS = ["rows", "source", "hardware", "layout", "why", "speedup"]
SCALARS = st.none() | st.booleans() | st.integers(-9, 2**70) | st.floats() | st.text(max_size=4)
JSON = st.recursive(
    SCALARS | st.sampled_from(["1x2", "completed", "cuda"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner),
    max_leaves=6,
)


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_record_with_any_value_anywhere_is_summarised_or_noted(
    results: Path, make: Make, data: st.DataObject
) -> None:
    if not results.exists():
        make.run(results, 4.0)
        make.run(results, 3.0, layout="1x2", definition=ODD)
    first, other = sorted(results.glob("tiny/*/run.json.good")) or sorted(results.glob("tiny/*/run.json"))
    if first.suffix == ".json":
        for path in (first, other):
            path.with_suffix(".json.good").write_bytes(path.read_bytes())
    good = other.with_name("run.json.good").read_bytes()
    plain: Any = json.loads(good)
    launch = plain["launch"]
    place: Any = data.draw(
        st.sampled_from([plain, launch, launch["definition"], plain["ranks"][0]["facts"], plain["facts"]])
    )
    while True:
        keys = list(range(len(place))) if isinstance(place, list) else list(place)
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            place[key] = data.draw(JSON)
            break
        place = place[key]
    other.with_name("run.json").write_text(json.dumps(plain))
    try:
        blocks, notes = summarize(results)
    except RequestError:
        pytest.fail("one odd record is no reason to refuse all")
    assert sum(len(row.runs) for block in blocks for row in block.rows) + len(notes) >= 2
    report.document("markdown", blocks)
    report.document("csv", blocks)
    json.loads(report.document("json", blocks))
