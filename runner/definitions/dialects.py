"""The key `dialect`: how the stdout of a program that knows nothing of the kit is read."""

from pathlib import Path

from runner.core.errors import RequestError, did_you_mean
from runner.core.yaml_reader import Document
from runner.definitions.keys import NOT_BLANK, Node
from runner.logs import dialect
from trainkit.files import read_file

MEASURES = ("wall_seconds", "stated_seconds", "span_seconds")
"""The times of such a program: by the runner's clock from the launch to the end, as it says, or between its stamps."""
MOST = 20
_MEANT = "a dialect has to be a name or the path of a YAML file, not {shown}"
_COUNT = f"{{count}} dialects; from 1 to {MOST} can be named"
DIALECT: Node = {
    "description": "How the stdout of a program that knows nothing of the kit is read: "
    "dialects of the kit, or files of one's own.",
    "type": ["string", "array", "null"],
    "pattern": NOT_BLANK,
    "items": {"type": "string", "pattern": NOT_BLANK, "says": {"type": _MEANT}},
    "minItems": 1,
    "maxItems": MOST,
    "says": {"type": _MEANT, "minItems": _COUNT, "maxItems": _COUNT},
}


def read_dialects(document: Document, root: Path) -> dict[str, str]:
    """Return the text of each dialect that is named: empty for the kit's own; no dialect for a program of the kit."""
    value = document.values.get("dialect") or []
    if isinstance(value, str):
        return {value: _text(document, root, value, "dialect")}
    return {word: _text(document, root, word, "dialect", index) for index, word in enumerate(value)}


def _text(document: Document, root: Path, word: str, *place: str | int) -> str:
    if not word.endswith((".yaml", ".yml")):
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


def measure_of(document: Document, measure: str, dialects: dict[str, str]) -> str:
    """Return the time that is compared; refuse one that no such program can have."""
    if not dialects or measure in MEASURES:
        return measure
    if "measure" in document.values:
        known = f"the time of a program that is read by a dialect is one of {', '.join(MEASURES)}"
        document.fail(f"measure '{measure}': {known}", "measure")
    return MEASURES[0]
