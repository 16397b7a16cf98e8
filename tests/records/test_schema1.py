"""A real run of schema 1, as the first version kept it: it is still summarised, and parsed again to the same."""

import shutil
from collections.abc import Callable
from pathlib import Path

from runner.records.parse import reparse
from runner.report import formats
from runner.report.summarize import summarize

KEPT = Path(__file__).parent / "schema1"
GOLDEN = Path(__file__).parent / "schema1.json"


def test_a_record_of_schema_1_is_summarised_as_before(golden: Callable[..., None]) -> None:
    blocks, notes = summarize(KEPT)
    assert notes == []
    golden(GOLDEN, formats.document("json", blocks))


def test_a_run_of_schema_1_is_parsed_again_to_the_same_record(tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(KEPT, results)
    (run,) = (results / "quickstart").iterdir()
    record = reparse(run)
    assert (record.status, record.doubts, record.events["malformed"]) == ("completed", [], 0)
    assert formats.document("json", summarize(results)[0]) == GOLDEN.read_text("utf-8")
