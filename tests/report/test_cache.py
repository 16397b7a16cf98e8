"""`results/` -> summaries: whatever lies in the folder, and whatever became of the cache."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runner.core.errors import RequestError
from runner.report.forms import FORMS
from runner.report.parallel import in_shares
from runner.report.reading import FEWEST_IN_PARALLEL, read_results
from runner.report.show import show

if TYPE_CHECKING:
    from tests.support.records import Make

LISTENING = """
import sys
sys.addaudithook(lambda what, words: print(words[0], file=sys.stderr) if what == "open" else None)
from runner.cli import main
main()
"""
"""The command, with a line on stderr for each file that it opens."""


@pytest.fixture
def results(weird_path: Path) -> Path:
    return weird_path / "results"


def seen(results: Path) -> list[tuple[str, str, float | None]]:
    return [(one.path, one.status, one.seconds) for one in read_results(results).runs]


def shown(results: Path, form: str = "json") -> tuple[list[str], list[str]]:
    return show(results, form)


def cache_file(cache: Path) -> Path:
    """The one file in which everything is kept."""
    (found,) = (path for path in cache.rglob("*") if path.is_file())
    return found


def test_the_cache_changes_nothing_but_the_time(results: Path, make: Make, cache: Path) -> None:
    names = [f"tiny/{make.run(results, seconds).path.name}" for seconds in (1.0, 2.0, 3.0)]
    first, texts = read_results(results), {form: shown(results, form) for form in FORMS}
    assert read_results(results) == first
    assert {form: shown(results, form) for form in FORMS} == texts
    cache_file(cache).unlink()
    assert {form: shown(results, form) for form in FORMS} == texts
    assert read_results(results) == first
    assert [one.path for one in first.runs] == names
    assert first.notes == []


def opened(results: Path, *words: str) -> list[str]:
    """The folders of experiments that `runner summarize` opens; it lists them without."""
    command = [sys.executable, "-c", LISTENING, "summarize", str(results), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line for line in done.stderr.splitlines() if line in ("one", "other")]


@pytest.mark.parametrize("form", ["json", "csv", "markdown"])
def test_a_summary_opens_only_the_records_of_folders_in_which_one_has_changed(
    results: Path, make: Make, form: str
) -> None:
    for experiment in ("one", "other"):
        make.run(results, 1.0, experiment=experiment)
    assert set(opened(results, "--format", form)) == {"one", "other"}
    assert opened(results, "--format", form) == []
    make.run(results, 2.0, experiment="other")
    assert set(opened(results, "--format", form)) == {"other"}
    assert opened(results, "--format", form) == []


def test_what_is_shown_after_a_change_is_what_is_shown_without_a_cache(
    results: Path, make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def assert_fresh(number: int) -> None:
        seen = {form: shown(results, form) for form in FORMS}
        with monkeypatch.context() as other:
            other.setenv("XDG_CACHE_HOME", str(tmp_path / f"none{number}"))
            assert {form: shown(results, form) for form in FORMS} == seen

    runs = [make.run(results, 1.0 + number, experiment=name) for number, name in enumerate(("one", "one", "other"))]
    assert_fresh(1)
    beside = make.run(tmp_path / "beside", 5.0, experiment="one").path
    copied = results / "a copy of one"
    shutil.copytree(beside, copied / beside.name)  # the runs of one block lie in two folders from now on
    assert_fresh(2)
    make.run(results, 4.0, experiment="other")
    assert_fresh(3)
    shutil.rmtree(copied)
    assert_fresh(4)
    (runs[0].path / "run.json").write_bytes(b"torn")
    assert_fresh(5)
    shutil.rmtree(runs[0].path)
    assert_fresh(6)


def test_one_experiment_is_shown_alone_and_the_others_are_still_known(results: Path, make: Make) -> None:
    for experiment in ("one", "other"):
        make.run(results, 1.0, experiment=experiment)
    for _ in range(2):
        ((row,), notes) = show(results, "json", "other")
        assert (json.loads(row)["experiment"], notes) == ("other", [])
        with pytest.raises(RequestError, match="no runs of 'othr'; did you mean 'other'"):
            show(results, "json", "othr")
    assert len(shown(results)[0]) == 2


def test_many_records_are_parsed_in_parallel_and_come_out_as_if_one_by_one(results: Path, make: Make) -> None:
    """Records like one, but for the id, so many that a second process pays; some are torn."""
    first = make.run(results, 1.0).path
    good = (first / "run.json").read_bytes()
    for number in range(2 * FEWEST_IN_PARALLEL):
        folder = first.with_name(f"like-it-{number:05}")
        folder.mkdir()
        own = good.replace(first.name.encode(), folder.name.encode())
        (folder / "run.json").write_bytes(own if number % 100 else own[:-9])
    command = [sys.executable, "-c", "from runner.cli import main; main()", "summarize", str(results)]
    done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, check=True)
    (row,) = json.loads(done.stdout)
    assert row["n"] == 2 * FEWEST_IN_PARALLEL * 99 // 100 + 1
    assert len(row["points"]) == row["n"]
    assert done.stderr.count("left out: torn or no JSON") == 2 * FEWEST_IN_PARALLEL // 100
    assert len(read_results(results).runs) == row["n"]


def test_a_process_that_does_not_come_back_has_its_share_done_by_another() -> None:
    parent = os.getpid()

    def work(part: list[int]) -> bytes:
        if os.getpid() != parent:
            os._exit(7)
        return bytes(part)

    assert b"".join(in_shares(work, list(range(100)), 1)) == bytes(range(100))


def test_a_record_that_was_replaced_by_one_of_the_same_size_and_time_is_read_anew(results: Path, make: Make) -> None:
    folder = make.run(results, 1.0)
    path = folder.path / "run.json"
    before = path.stat()
    assert seen(results)[0][2] == 1.0
    beside = folder.path / "beside"
    beside.write_bytes(path.read_bytes().replace(b'"train_seconds": 1.0', b'"train_seconds": 7.0'))
    os.utime(beside, ns=(before.st_atime_ns, before.st_mtime_ns))
    beside.replace(path)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert seen(results)[0][2] == 7.0


def test_a_record_that_was_changed_in_place_is_read_anew(results: Path, make: Make) -> None:
    path = make.run(results, 1.0).path / "run.json"
    before = path.stat()
    seen(results)
    path.write_bytes(path.read_bytes().replace(b'"train_seconds": 1.0', b'"train_seconds": 7.0'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert seen(results)[0][2] == 7.0


def test_a_run_that_is_gone_is_gone(results: Path, make: Make) -> None:
    kept, gone = make.run(results, 1.0), make.run(results, 2.0)
    seen(results)
    (gone.path / "run.json").unlink()
    contents = read_results(results)
    assert [one.path for one in contents.runs] == [f"tiny/{kept.path.name}"]
    [note] = contents.notes
    assert note.startswith(f"{gone.path}: left out: no run.json; make it with: runner collect ")


def garbage(path: Path) -> None:
    path.write_bytes(b"no database at all" * 100)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:700])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def another_database(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE something(path TEXT, other TEXT)")
    database.close()


@pytest.mark.parametrize("damage", [garbage, cut, empty, folder, another_database], ids=lambda one: one.__name__)
def test_a_damaged_cache_is_made_anew(results: Path, make: Make, cache: Path, damage: Any) -> None:
    make.run(results, 1.0)
    first = seen(results), shown(results)
    damage(cache_file(cache))
    for _ in range(2):
        assert (seen(results), shown(results)) == first


@pytest.mark.parametrize("written", [b"\0", b"\xff", b"7"])
def test_no_byte_that_was_changed_in_the_cache_reaches_the_table(
    results: Path, make: Make, cache: Path, written: bytes
) -> None:
    """Wherever the disk or somebody has changed it: SQLite itself notices few of these changes."""
    for experiment in ("one", "other"):
        make.run(results, 1.2345, experiment=experiment)
    first = seen(results), shown(results)
    path = cache_file(cache)
    good = path.read_bytes()
    held = [place for place in range(len(good)) if good[place]]
    for place in held[:: len(held) // 150]:
        path.write_bytes(good[:place] + written * 5 + good[place + 5 :])
        assert (seen(results), shown(results)) == first, place


@pytest.mark.parametrize("place", ["/proc/nowhere", "x" * 300, "/dev/null"])
def test_a_cache_that_cannot_be_kept_is_done_without(
    results: Path, make: Make, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", place)
    make.run(results, 1.0)
    assert seen(results) == seen(results) != []


def test_without_a_home_there_is_no_cache_and_no_error(
    results: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/proc/nowhere")
    make.run(results, 1.0)
    assert len(seen(results)) == 1
