"""What the tests of results from strangers share."""

import json
from pathlib import Path
from typing import Any

from runner.records.folder import RunFolder, begin
from runner.records.schema import NodeExit
from runner.report import formats
from runner.report.summarize import summarize
from tests.support.records import Make

FORGED = "x\n1x8  3  1.00  8.00  yes\x1b[2J\x1b]0;title\x07\x9b31m\u202e|<b>"
"""A text that would forge a row and move the cursor."""
HUGE = 10**400


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """Every path below a folder with its size and time."""
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in sorted(folder.rglob("*"))}


def edited(run: Path, *place: str | int, value: object) -> None:
    """Put a value of a stranger's into a record."""
    target = record = json.loads((run / "run.json").read_bytes())
    *outer, last = place
    for key in outer:
        target = target[key]
    target[last] = value
    (run / "run.json").write_text(json.dumps(record))


def all_formats(results: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Summarise in every format; return the rows and all notes."""
    blocks, notes = summarize(results)
    for form in formats.FORMS[1:]:
        for line in formats.document(form, blocks).split("\n"):
            assert line.isprintable(), line
    json.loads(formats.document("json", blocks))
    notes += [note for block in blocks for note in formats.to_table(block).notes]
    return formats.to_rows(blocks), notes


def by_hand(results: Path, make: Make, **changes: Any) -> RunFolder:
    folder = begin(results, make.launch(by_hand=True, **changes), "", "")
    worker = folder.node(0) / "none_x" / "attempt_0" / "0"
    worker.mkdir(parents=True)
    (worker / "stdout.log").write_bytes(make.lines(0, 2.0))
    folder.keep_exit(NodeExit(0, 0))
    return folder
