"""Small logs with the truth beside each: some printed by real runs, the others in the formats of programs."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from runner.logs.dialect import built_in
from runner.logs.origin import NOBODY, split
from runner.logs.reading import read_log, read_stream
from runner.logs.summary import FIELDS, summary

LOGS = sorted((Path(__file__).parent / "logs").glob("*.log"))


def read_in_parts(data: bytes) -> dict[str, Any]:
    """Return the summary without the text of a duration, which has the prefixes of its line."""
    parts = [data[at : at + 1_000] for at in range(0, len(data), 1_000)]
    found = summary("-", read_stream(lambda _: parts.pop(0) if parts else b""))
    walls = found["wall_time_s"] and found["wall_time_s"]["value"]
    return {**{field: found[field] for field in (*FIELDS, "lines")}, "wall_time_s": walls}


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_the_summary_of_a_log_is_its_truth(path: Path) -> None:
    truth = json.loads(path.with_suffix(".json").read_text("utf-8"))["truth"]
    found = summary(path.stem, read_log(path))
    assert set(truth) == set(FIELDS)
    for field, wanted in truth.items():
        is_part = isinstance(wanted, dict) and found[field]
        assert ({key: found[field][key] for key in wanted} if is_part else found[field]) == wanted, field


def test_each_dialect_has_logs() -> None:
    read = set().union(*(summary(path.stem, read_log(path))["dialects"] for path in LOGS))
    assert read >= {dialect.name for dialect in built_in()} | {"mlperf"}


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_prefixes_of_launchers_and_line_ends_of_windows_change_nothing(path: Path) -> None:
    data = path.read_bytes()
    plain = read_in_parts(data)
    if all(split(line)[0].writer == NOBODY.writer for line in data.decode(errors="replace").splitlines()):
        for prefix in (b"[pod/mnist-master-0/pytorch] ", b"\x1b[36mtrainer-1  |\x1b[0m "):
            assert read_in_parts(b"".join(prefix + line for line in io.BytesIO(data))) == plain, prefix
    if b"\r" not in data:
        assert read_in_parts(data.replace(b"\n", b"\r\n")) == plain
