"""The key `dialect`: how the stdout of a program that knows nothing of the kit is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runner.core.errors import RequestError, did_you_mean
from runner.core.text import shown
from runner.core.yaml_reader import Document
from runner.logs import dialect
from trainkit.files import read_file

KEY = "dialect"
MOST = 20
MEASURES = ("wall_seconds", "stated_seconds", "span_seconds")
"""The times of such a program: by the runner's clock from the launch to the end, as it says, or between its stamps."""
_FILES = (".yaml", ".yml")


def read_dialects(document: Document, root: Path) -> dict[str, str]:
    """Return the text of each dialect that is named: empty for the kit's own; no dialect for a program of the kit."""
    value = document.values.get(KEY)
    words = value if isinstance(value, list) else [] if value is None else [value]
    if len(words) > MOST or value == []:
        document.fail(f"{len(words)} dialects; from 1 to {MOST} can be named", KEY)
    return {word: _text(document, root, word, *_place(value, index)) for index, word in enumerate(words)}


def measure_of(document: Document, measure: str, dialects: dict[str, str]) -> str:
    """Return the time that is compared; refuse one that no such program can have."""
    if not dialects or measure in MEASURES:
        return measure
    if "measure" in document.values:
        known = f"the time of a program that is read by a dialect is one of {', '.join(MEASURES)}"
        document.fail(f"measure '{measure}': {known}", "measure")
    return MEASURES[0]


def dialects_schema() -> dict[str, Any]:
    """Return the JSON Schema of the key."""
    word = {"type": "string", "pattern": r"\S"}
    about = (
        "How the stdout of a program that knows nothing of the kit is read: dialects of the kit, or files of one's own."
    )
    nothing = {"type": "null"}
    return {
        "description": about,
        "anyOf": [nothing, word, {"type": "array", "items": word, "minItems": 1, "maxItems": MOST}],
    }


def _place(value: object, index: int) -> tuple[str | int, ...]:
    return (KEY, index) if isinstance(value, list) else (KEY,)


def _text(document: Document, root: Path, word: Any, *place: str | int) -> str:
    if not isinstance(word, str) or not word.strip():
        document.fail(f"a dialect has to be a name or the path of a YAML file, not {shown(word)}", *place)
    if not word.endswith(_FILES):
        if word not in dialect.names():
            document.fail(f"no dialect '{word}' in docs/dialects.md{did_you_mean(word, dialect.names())}", *place)
        return ""
    if ".." in word.split("/") or word.startswith("/"):
        document.fail(f"dialect '{word}': a file of the project, by its path from the project's folder", *place)
    try:
        dialect.load(root / word)
        return read_file(root / word, dialect.LARGEST_BYTES).decode("utf-8-sig")
    except RequestError as error:
        document.fail(str(error), *place)
