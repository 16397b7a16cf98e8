"""A real run of schema 1, as the first version kept it: it is still summarised, and parsed again to the same."""

import shutil
from collections.abc import Callable
from pathlib import Path

from runner.records.parse import reparse
from runner.report import formats
from runner.report.summarize import summarize

KEPT = Path(__file__).parent / "schema1"
GOLDEN = Path(__file__).parent / "schema1.json"


def test_a_record_of_schema_1_is_summarised_and_parsed_again_to_the_same(
    tmp_path: Path, golden: Callable[..., None]
) -> None:
    assert summarize(KEPT)[1] == []
    results = tmp_path / "results"
    shutil.copytree(KEPT, results)
    (run,) = (results / "quickstart").iterdir()
    record = reparse(run)
    assert (record.status, record.doubts, record.events["malformed"]) == ("completed", [], 0)
    for folder in (KEPT, results):
        golden(GOLDEN, formats.document("json", summarize(folder)[0]))
