"""A results folder from a stranger, or from a bad day: one bad record is a note, and its text stays text."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.core.errors import RequestError
from runner.records.finalize import reparse
from runner.records.folder import RunFolder, begin
from runner.records.parse import collect
from runner.records.schema import NodeExit, Outcome
from runner.report import formats
from runner.report.summarize import summarize
from runner.tools.pages.exported import exported_runs
from tests.report.hostile import FORGED, all_formats, by_hand, edited
from tests.support.records import Make


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
        rows, notes = all_formats(results)
        assert [row["seconds"] for row in rows] == [4.0]
        assert any("locked: left out: Permission denied" in note for note in notes)
        assert any(f"{hidden.name}/run.json: left out: it is no regular file" in note for note in notes)


def altered(path: str, old: bytes, new: bytes) -> Callable[[RunFolder], object]:
    """Replace what a file of a run holds; all of it, if `old` is empty."""

    def damage(folder: RunFolder) -> None:
        data = (folder.path / path).read_bytes()
        (folder.path / path).write_bytes(data.replace(old, new) if old else new)

    return damage


EXIT, LAUNCH = "raw/node0-exit.json", "request/launch.json"
DAMAGES: dict[str, tuple[Callable[[RunFolder], object], bool, bool]] = {
    "a broken exit": (altered(EXIT, b"", b'{"node": 0, "co'), True, False),
    "a foreign exit": (altered(EXIT, b"", b'{"node": 999999999999, "code": 0}'), False, False),
    "no time": (altered(LAUNCH, b"2026-11-21T", b"99999-11-21T"), True, True),
    "no launch": (altered(LAUNCH, b"", b'{"schema": 1'), True, True),
}
"""How a run is damaged, whether that is noted, and whether it is refused to make its record."""


@pytest.mark.parametrize(("damage", "is_noted", "is_refused"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_run_by_hand_is_summarised_or_noted_and_collected_or_refused(
    results: Path, make: Make, damage: Callable[[RunFolder], object], is_noted: bool, is_refused: bool
) -> None:
    make.run(results, 4.0, layout="1x2")
    folder = by_hand(results, make)
    damage(folder)
    _, notes = all_formats(results)
    assert any(folder.path.name in note for note in notes) or not is_noted
    if is_refused:
        with pytest.raises(RequestError) as refused:
            reparse(folder.path)
        assert str(refused.value).isprintable()
        return
    assert reparse(folder.path).doubts or not is_noted
    assert all_formats(results)[0]


def test_a_run_by_hand_whose_dialect_is_none_has_a_note_and_the_others_their_rows(results: Path, make: Make) -> None:
    make.run(results, 4.0, layout="1x2")
    folder = by_hand(results, make, dialects={"x": "name: ["})
    rows, notes = all_formats(results)
    assert 4.0 in [row["seconds"] for row in rows]
    assert any("not collected: its dialect cannot be read: x:" in note for note in notes), notes
    left_out: list[str] = []
    assert len(list(exported_runs(results, None, left_out))) == 1
    assert folder.path.name in left_out[0]
    with pytest.raises(RequestError, match="its dialect cannot be read: x:"):
        reparse(folder.path)


def test_no_text_of_a_record_forges_a_row_or_reaches_a_terminal_raw(results: Path, make: Make) -> None:
    names = ["id", "experiment", "target", "program", "scaling", "measure", "device", "definition_sha256"]
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
        assert formats.document("csv", [block]).count("\n") == 2
        assert sum(line.startswith("|") for line in formats.document("markdown", [block]).split("\n")) == 3


def test_the_last_lines_of_a_failed_rank_are_printable_and_keep_their_indentation(results: Path, make: Make) -> None:
    folder = begin(results, make.launch(), "", "")
    (folder.raw / "node0-agent.log").write_text(f"Traceback\n    {FORGED}\n")
    outcome = Outcome(ended="", wall_seconds=1.0, exits=[NodeExit(0, 1)])
    failure = collect(folder, folder.launch(), outcome).failure
    assert failure.last_lines[:2] == ["Traceback", "    x"]
    assert all(line.isprintable() for line in failure.last_lines)
