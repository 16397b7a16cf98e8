"""Copies of records beside the runs that they were made of: no repeat is counted twice."""

import shutil
from pathlib import Path

from runner.report.formats import document
from runner.report.notes import notes as notes_of
from runner.report.summarize import read_results, summarize
from runner.report.two_sides import NOT_COMPARABLE, exit_code, judge
from tests.support.records import Make


def copied(results: Path, times: int = 1) -> None:
    """Copy the folder of the runs, as for a backup."""
    for number in range(times):
        shutil.copytree(results / "tiny", results / f"backup{number}")


def test_copies_of_one_run_are_no_repeats_of_it(results: Path, make: Make) -> None:
    make.run(results, 10.0)
    make.run(results, 6.0, layout="1x2")
    copied(results, 2)
    (found,) = summarize(results)[0]
    assert [(len(row.runs), row.claimed) for row in found.rows] == [
        (1, "the baseline"),
        (1, "n = 1, needs 3 on both sides"),
    ]
    said = [note for note in notes_of(found) if "cop" in note]
    assert [note.partition(", the first: ")[0] for note in said] == [
        f"{name}: 2 copies of runs do not count" for name in ("1x1", "1x2")
    ]
    beside = min((results / "tiny").iterdir())
    shutil.copytree(beside, beside.with_name("copy"))
    assert "1x1: 3 copies of runs do not count" in document("markdown", summarize(results)[0])


def test_runs_that_somebody_gave_one_id_are_repeats_if_they_began_at_other_times(results: Path, make: Make) -> None:
    for place in ("tiny", "one", "two"):
        make.run(results, 10.0, id="imported")
        (results / "tiny").rename(results / f"{place} of three")
    (found,) = summarize(results)[0]
    assert (len(found.rows[0].runs), found.rows[0].copies) == (3, ())


def test_runs_that_lie_on_both_sides_are_not_compared(tmp_path: Path, make: Make) -> None:
    for name, seconds in (("before", (10.0, 10.1, 9.9)), ("after", (12.0, 12.1, 11.9))):
        for value in seconds:
            make.run(tmp_path / name, value)
    shutil.copytree(tmp_path / "before" / "tiny", tmp_path / "after" / "tiny", dirs_exist_ok=True)
    before, after = (read_results(tmp_path / name).runs for name in ("before", "after"))
    for other in (before, after):
        (found,) = judge(before, other, 0.05)
        assert (found.verdict, found.why, exit_code([found])) == (NOT_COMPARABLE, "3 runs lie on both sides", 4)
