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
    record = json.loads((run / "run.json").read_bytes())
    target = record
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    (run / "run.json").write_text(json.dumps(record))


def all_formats(results: Path) -> tuple[list[dict[str, Any]], list[str], str]:
    """Summarise in every format; return the rows, all notes, and the texts."""
    blocks, notes = summarize(results)
    tables = [formats.to_table(block) for block in blocks]
    shown = [text for one in tables for text in (one.title, *one.common, *one.head, *one.notes)]
    shown += [text for one in tables for text in (one.published.title, *one.published.head)]
    shown += [cell for one in tables for line in (*one.lines, *one.published.lines) for cell in line]
    texts = [formats.document(form, blocks) for form in ("markdown", "csv", "json", "latex")]
    for text in (*shown, *notes, *"".join(texts).split("\n")):
        assert text.isprintable(), text
    json.loads(texts[2])
    return formats.to_rows(blocks), [*notes, *(note for one in tables for note in one.notes)], "\n".join(texts)


def by_hand(results: Path, make: Make, **changes: Any) -> RunFolder:
    folder = begin(results, make.launch(by_hand=True, **changes), "", "")
    worker = folder.node(0) / "none_x" / "attempt_0" / "0"
    worker.mkdir(parents=True)
    (worker / "stdout.log").write_bytes(make.lines(0, 2.0))
    folder.keep_exit(NodeExit(0, 0))
    return folder
