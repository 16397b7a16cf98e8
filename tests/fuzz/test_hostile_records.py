"""Records from a stranger's archive: whatever they hold, each run is a row or a note."""

import json
import shutil
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.report import formats
from runner.report.summarize import summarize

pytestmark = pytest.mark.slow

SCHEMA1 = Path(__file__).parents[1] / "records" / "schema1" / "quickstart"
QUICK: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}
WORDS = ["\x1b[2J", "\u202e", "\n1x8 3 yes", "|", "<b>", "=1+1", "\0", "65536x1", "nan", "running", "x" * 9_999]
TEXTS = st.text(max_size=6) | st.sampled_from(WORDS)
NUMBERS = st.sampled_from([0, -1, 10**21, 2**64, 10**400, 1e308, -1e308, 1e-308]) | st.floats() | st.integers()
DEEP = st.integers(1, 400).map(lambda depth: json.loads("[" * depth + "]" * depth))
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | DEEP,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


def encoded(value: object) -> bytes:
    """Encode JSON, including NaN and text that is not UTF-8."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


ROW = {"layout": "1x2", "variant": "a", "hardware": "2x A", "total_seconds": 1.0, "val_loss": [1.0], "note": "n"}
DEFINITION = {"skip": [{"why": "w", "variant": "b"}], "published": {"source": "s", "rows": [ROW]}}


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every mapping and list in a JSON value, with each of its keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from places(inner)


def summarized(results: Path) -> tuple[int, int]:
    """Summarize in every format; return the numbers of runs and of notes."""
    blocks, notes = summarize(results)
    rows = json.loads(formats.document("json", blocks), parse_constant=pytest.fail)
    assert all(line.isprintable() for line in formats.document("markdown", blocks).split("\n"))
    assert formats.document("csv", blocks).count("\n") == len(rows) + 1
    return sum(len(row.runs) for block in blocks for row in block.rows), len(notes)


@settings(max_examples=1_000, **QUICK)
@given(st.data())
def test_a_hostile_record_is_a_row_or_a_note_and_the_good_one_stays(results: Path, data: st.DataObject) -> None:
    (good,) = SCHEMA1.iterdir()
    bad = results / "quickstart" / "zz-bad"
    if not results.exists():
        shutil.copytree(SCHEMA1, bad.parent)
        assert summarized(results) == (1, 0)
        shutil.copytree(good, bad)
    record = json.loads((good / "run.json").read_bytes())
    record["launch"] |= {"id": "zz-bad", "axes": {"variant": "a"}}  # else it counts as a copy of the good one
    record["launch"]["definition"] |= deepcopy(DEFINITION)
    record["load"][0]["points"] = {}  # they are many
    holder, key = data.draw(st.sampled_from([*places(record)]))
    old = holder[key]
    same = TEXTS if isinstance(old, str) else NUMBERS if isinstance(old, int | float) else VALUES
    holder[key] = data.draw(same | VALUES)  # half of the time of the same kind, so that it is accepted
    text = encoded(record)
    cut = data.draw(st.sampled_from([len(text)] * 9 + [len(text) // 2]))
    (bad / "run.json").write_bytes(text[:cut] + data.draw(st.sampled_from([b"", b"\xff"])))
    runs, notes = summarized(results)
    assert runs >= 1
    assert runs + notes == 2


@pytest.mark.parametrize("baseline", [{"layout": "; touch x #"}, {"layout": 5}, {"cpus": 4}])
def test_a_forged_baseline_costs_no_row_and_reaches_no_command(results: Path, baseline: Any) -> None:
    shutil.copytree(SCHEMA1, results / "quickstart")
    (path,) = (results / "quickstart").glob("*/run.json")
    record = json.loads(path.read_bytes())
    record["launch"] |= {"target": "compose", "options": {"cpus": "2"}, "option_axes": {"cpus": "of each node"}}
    record["launch"]["definition"]["baseline"] = baseline
    path.write_bytes(encoded(record))
    blocks, _ = summarize(results)
    assert "touch" not in formats.document("markdown", blocks)
    assert [len(row.runs) for block in blocks for row in block.rows] == [1]
