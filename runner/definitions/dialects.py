"""The keys `dialect` and `metrics`: how the stdout of a program is read."""

import re
from pathlib import Path

from runner.core.errors import RequestError, did_you_mean
from runner.core.yaml_reader import Document
from runner.definitions.keys import NOT_BLANK, Node, choice
from runner.logs import dialect, metrics
from trainkit.files import read_file

MEASURES = ("sample_seconds", "wall_seconds", "stated_seconds")
"""The times of such a program: for a sample, seen inside; by the runner's clock from launch to end; as it says."""
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
_PATTERN: Node = {"type": "string", "pattern": NOT_BLANK, "meant": "a regular expression"}
METRICS: Node = {
    "description": "Figures to read from stdout: each by a regular expression with one group, a number.",
    "type": ["object", "null"],
    "additionalProperties": {
        "type": ["string", "object"],
        "pattern": NOT_BLANK,
        "properties": {"pattern": _PATTERN, "best": choice("Which one is kept beside the last.", metrics.BEST)},
        "required": ["pattern"],
        "additionalProperties": False,
        "meant": "a regular expression, or a mapping with pattern and best",
    },
}


def read_metrics(document: Document) -> dict[str, dict[str, str]]:
    """Return the pattern of each metric, and `best` where it is named."""
    found = {}
    for name, value in (document.values.get("metrics") or {}).items():
        if not re.fullmatch(metrics.NAME, name):
            document.fail(f"metric '{name}': a name has lower-case letters, digits and _, 40 at most", "metrics", name)
        found[name] = {"pattern": value} if isinstance(value, str) else value
        try:
            metrics.compiled({name: found[name]})
        except RequestError as error:
            document.fail(str(error), "metrics", name)
    return found


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
    if dialects and measure == "stated_seconds" and "seconds" not in (document.values.get("metrics") or {}):
        document.fail("measure 'stated_seconds': metrics has to name the line that states it: seconds", "measure")
    if not dialects or measure in MEASURES:
        return measure
    if "measure" in document.values:
        known = f"the time of a program that is read by a dialect is one of {', '.join(MEASURES)}"
        document.fail(f"measure '{measure}': {known}", "measure")
    return MEASURES[0]
