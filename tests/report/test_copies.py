"""Copies of records beside the runs that they were made of: no repeat is counted twice."""

import shutil
from pathlib import Path

import pytest

from runner.report.formats import document
from runner.report.notes import notes as notes_of
from runner.report.reading import read_results
from runner.report.run_summary import RunSummary
from runner.report.summarize import summarize
from runner.report.two_sides import NOT_COMPARABLE, SAME_RUNS, SLOWER, exit_code, judge, to_notes
from tests.support.records import Make

DETECT = 0.05


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
    assert all("the first: backup0/" in note for note in said)  # and not the runs themselves
    beside = min((results / "tiny").iterdir())
    shutil.copytree(beside, beside.with_name("copy"))
    assert "1x1: 3 copies of runs do not count" in document("markdown", summarize(results)[0])


def test_runs_that_somebody_gave_one_id_are_repeats_if_they_began_at_other_times(results: Path, make: Make) -> None:
    for place in ("tiny", "one", "two"):
        make.run(results, 10.0, id="imported")
        (results / "tiny").rename(results / f"{place} of three")
    (found,) = summarize(results)[0]
    assert (len(found.rows[0].runs), found.rows[0].copies) == (3, ())


def sides(tmp_path: Path, make: Make, *, copy_to: str) -> tuple[list[RunSummary], list[RunSummary]]:
    """Three runs before and three slower ones after; those of one side lie on the other too."""
    for name, seconds in (("before", (10.0, 10.1, 9.9)), ("after", (12.0, 12.1, 11.9))):
        for value in seconds:
            make.run(tmp_path / name, value)
    of = {"before": "after", "after": "before"}[copy_to]
    shutil.copytree(tmp_path / of / "tiny", tmp_path / copy_to / "tiny", dirs_exist_ok=True)
    before, after = (read_results(tmp_path / name).runs for name in ("before", "after"))
    return before, after


@pytest.mark.parametrize(("copy_to", "owner"), [("after", "A"), ("before", "B")])
def test_runs_on_both_sides_count_for_the_side_that_has_no_others(
    tmp_path: Path, make: Make, copy_to: str, owner: str
) -> None:
    (found,) = judge(*sides(tmp_path, make, copy_to=copy_to), DETECT)
    assert (found.verdict, found.repeats) == (SLOWER, 3)
    assert f"1x1: 3 runs lie on both sides: counted for {owner} alone" in to_notes([found], DETECT)


def test_runs_on_both_sides_that_have_others_too_count_for_neither(tmp_path: Path, make: Make) -> None:
    before, after = sides(tmp_path, make, copy_to="after")
    make.run(tmp_path / "more", 10.2)
    (found,) = judge([*before, *read_results(tmp_path / "more").runs], after, DETECT)
    assert (len(found.a.runs) if found.a else 0, len(found.b.runs) if found.b else 0) == (1, 3)
    assert "1x1: 3 runs lie on both sides: counted for neither" in to_notes([found], DETECT)


def test_a_folder_and_its_copy_are_no_two_versions(tmp_path: Path, make: Make) -> None:
    before, _ = sides(tmp_path, make, copy_to="after")
    (found,) = judge(before, before, DETECT)
    assert (found.verdict, found.why, exit_code([found])) == (NOT_COMPARABLE, SAME_RUNS, 4)
