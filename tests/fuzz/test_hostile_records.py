"""Records, event lines and raw files from a stranger: no case raises what is no KitError, or takes two seconds."""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.core.errors import KitError
from runner.records.events import parse_checked
from runner.records.finalize import reparse
from runner.report import formats
from runner.report.summarize import summarize
from tests.fuzz.sizes import MOST_SECONDS, RAW_FOLDERS, RECORDS
from tests.support.patience import patient

pytestmark = pytest.mark.slow

SCHEMA1 = Path(__file__).parents[1] / "records" / "schema1"
QUICK = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}

HIDING = st.sampled_from(
    ["\x1b[2J", "\x1b]0;x\x07", "\x9b1m", "\u202e", "\n1x8 3 yes", "|", "<b>", "=1+1", "\0", "\x7f"]
)
WORDS = ["1x1", "65536x1", "2+3", "nan", "running", "completed", "x" * 9_999]
TEXTS = st.one_of(st.builds("{}{}".format, st.text(max_size=3), HIDING), st.text(max_size=6), st.sampled_from(WORDS))
NUMBERS = (
    st.sampled_from([0, -1, 1, 10**21, 2**63, 2**64, 10**400, -(10**400), 1e308, -1e308, 1e-308, 0.5]) | st.floats()
)
SCALARS = st.none() | st.booleans() | NUMBERS | st.integers() | TEXTS
DEEP = st.integers(1, 400).map(lambda depth: json.loads("[" * depth + "]" * depth))
VALUES = st.recursive(
    SCALARS | DEEP, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=5
)


def encoded(value: object) -> bytes:
    """JSON as a stranger writes it: also NaN, and text that is not UTF-8."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


@contextmanager
def one_case() -> Iterator[None]:
    began = time.process_time()
    yield
    assert time.process_time() - began < patient(MOST_SECONDS)


PUBLISHED = {"layout": "1x2", "variant": "a", "hardware": "2x A", "total_seconds": 1.0, "val_loss": [1.0], "note": "n"}
DEFINITION = {"skip": [{"why": "w", "variant": "b"}], "published": {"source": "s", "rows": [PUBLISHED]}}
# Where a record or a launch holds what reaches the table; most of its other values are those of epochs and points.
SUBTREES = [(), ("launch",), ("launch", "args"), ("launch", "host"), ("launch", "definition"), ("metrics",), ("facts",)]
SUBTREES += [("launch", "axes"), ("launch", "definition", "published", "rows", 0), ("launch", "definition", "skip", 0)]
SUBTREES += [("args",), ("host",), ("ranks", 0, "facts"), ("epochs", 0), ("exits", 0), ("outcome",), ("load", 0)]


def changed(value: Any, data: st.DataObject) -> None:
    """Put a stranger's value somewhere into a JSON value: half of the time of the same kind, so that it is taken."""
    for key in data.draw(st.sampled_from(SUBTREES)):
        inside = (isinstance(value, dict) and key in value) or (isinstance(value, list) and key == 0)
        inner = value[key] if inside else None
        if not isinstance(inner, dict | list) or not inner:
            break
        value = inner
    while True:
        places: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
        place = data.draw(st.sampled_from(places))
        old = value[place]
        if not isinstance(old, dict | list) or not old or data.draw(st.integers(0, 3)) == 0:
            kind = TEXTS if isinstance(old, str) else NUMBERS if isinstance(old, int | float) else VALUES
            value[place] = data.draw(kind if data.draw(st.integers(0, 3)) else VALUES)
            return
        value = old


def damaged(good: bytes, data: st.DataObject) -> bytes:
    """Change a file: its values, or its bytes."""
    if data.draw(st.integers(0, 9)) == 0:
        cut = data.draw(st.integers(0, len(good)))
        return good[:cut] + data.draw(st.binary(max_size=9)) + good[cut + data.draw(st.integers(0, 9)) :]
    value = json.loads(good)
    for _ in range(data.draw(st.integers(1, 4))):
        changed(value, data)
    return encoded(value)


def seen(results: Path) -> tuple[int, int]:
    """Summarise in every format; the numbers of runs in the table and of notes beside it."""
    blocks, notes = summarize(results)
    for block in blocks:
        table = formats.to_table(block)
        texts = [
            table.title,
            *table.common,
            *table.head,
            *table.notes,
            *(cell for line in (*table.lines, *table.published.lines) for cell in line),
        ]
        assert all(text.isprintable() for text in texts)
    assert all(note.isprintable() for note in notes)
    rows = json.loads(formats.document("json", blocks), parse_constant=pytest.fail)
    lines = formats.document("markdown", blocks).split("\n")
    assert all(line.isprintable() for line in lines)
    assert sum(line.startswith("|") for line in lines) >= len(rows) + 2 * len(blocks)
    assert formats.document("csv", blocks).count("\n") == len(rows) + 1
    return sum(len(row.runs) for block in blocks for row in block.rows), len(notes)


@settings(max_examples=RECORDS, **QUICK)
@given(st.data())
def test_whatever_stands_in_a_record_it_is_a_row_or_a_note_and_the_good_one_stays(
    results: Path, data: st.DataObject
) -> None:
    if not results.exists():
        shutil.copytree(SCHEMA1, results)
        (first,) = (results / "quickstart").iterdir()
        shutil.copytree(first, results / "quickstart" / "zz-bad")
    (good,) = (SCHEMA1 / "quickstart").iterdir()
    bad = results / "quickstart" / "zz-bad" / "run.json"
    record = json.loads((good / "run.json").read_bytes())
    record["launch"]["id"] = "zz-bad"  # or without its axes it would be a copy of the good one
    record["launch"]["axes"] = {"variant": "a"}
    record["launch"]["definition"] |= DEFINITION
    record["load"][0]["mean"] |= {"own_cpu_percent": 90.0, "swapped_bytes_per_second": 0.0}
    bad.write_bytes(damaged(encoded(record), data))
    with one_case():
        runs, notes = seen(results)
        assert runs + notes == 2
        assert runs >= 1


KEYS = ["run_start", "run_stop", "tracked_stats", "epoch_start", "epoch_stop", "eval_accuracy", "load", "train_stop"]
KEYS += ["dataset", "global_batch_size", "parameters", "progress", "seed"]
FIELDS = "rank seq epoch_num train_seconds samples seconds status host total_seconds devices".split()
FIELDS += ["device_name", "trained_samples", "steps", "torch", "cpu_percent", "gpu0_memory_bytes", "epochs", "loss"]
STATS = st.dictionaries(st.sampled_from(["train_seconds", "final_accuracy", "peak_bytes", "loss"]) | TEXTS, VALUES)
EVENTS = st.fixed_dictionaries(
    {"time_ms": NUMBERS, "key": st.sampled_from(KEYS) | TEXTS},
    optional={
        "value": STATS | VALUES,
        "metadata": st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=5) | VALUES,
    },
)
LINES = st.one_of(
    EVENTS.map(lambda event: b":::MLLOG " + encoded(event)),
    st.binary(max_size=40),
    st.sampled_from(
        [b":::MLLOG ", b"x" * 70_000, b":::MLLOG " + b"[" * 70_000, b":::MLLOG {torn", b"time : x", b"\xff"]
    ),
    st.just(b"rank      : 0 (local_rank: 0)\nexitcode  : 1 (pid: 9)"),
)
PRINTED = st.lists(LINES, max_size=6).map(b"\n".join)


RAW_NAMES = ["node0-rank0.stdout", "node0-rank1.stdout", "node0-rank0.stderr", "node0-agent.log", "node0-exit.json"]
RAW_NAMES += ["node0/x/attempt_0/1/stdout.log", "node99999-rank0.stdout", "node0-rank99999.stdout"]
OUTCOME = {"ended": "2026-11-21T00:01:00+00:00", "wall_seconds": 3.0, "exits": [{"node": 0, "code": 1}]}


@settings(max_examples=RAW_FOLDERS, **QUICK)
@given(st.data())
def test_whatever_lies_in_a_run_s_folder_it_is_collected_or_refused(results: Path, data: st.DataObject) -> None:
    (good,) = (SCHEMA1 / "quickstart").iterdir()
    shutil.rmtree(results, ignore_errors=True)
    run = results / "quickstart" / "run"
    (run / "raw").mkdir(parents=True)
    (run / "request").mkdir()
    launch = json.loads((good / "request" / "launch.json").read_bytes())
    launch["by_hand"] = data.draw(st.booleans())
    record = {**json.loads((good / "run.json").read_bytes()), "launch": launch, "status": "running"}
    changing = data.draw(st.sampled_from(["nothing", "launch", "outcome", "exit"]))
    kept = damaged(encoded(launch), data) if changing == "launch" else encoded(launch)
    (run / "request" / "launch.json").write_bytes(kept)
    (run / "run.json").write_bytes(encoded(record))
    if changing == "outcome" or data.draw(st.booleans()):
        outcome = damaged(encoded(OUTCOME), data) if changing == "outcome" else encoded(OUTCOME)
        (run / "raw" / "outcome.json").write_bytes(outcome)
    for name in data.draw(st.lists(st.sampled_from(RAW_NAMES), max_size=3, unique=True)):
        (run / "raw" / name).parent.mkdir(parents=True, exist_ok=True)
        printed = data.draw(PRINTED)
        (run / "raw" / name).write_bytes(printed)
        for line in printed.split(b"\n"):
            parse_checked(line)  # as while the run lasts
    if changing == "exit":
        (run / "raw" / "node0-exit.json").write_bytes(damaged(b'{"node": 0, "code": 1, "why": "x"}', data))
    with one_case():
        assert sum(seen(results)) == 1
        try:
            reparse(run)
            made = (run / "run.json").read_bytes()
            reparse(run)
            assert (run / "run.json").read_bytes() == made
        except KitError as error:
            assert str(error).isprintable()
        assert sum(seen(results)) == 1


def test_the_fuzz_tests_begin_from_a_record_that_is_good(results: Path) -> None:
    shutil.copytree(SCHEMA1, results)
    assert seen(results) == (1, 0)
