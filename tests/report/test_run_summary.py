"""What of a record the table compares: the code that a run really was."""

from pathlib import Path

import pytest

from runner.report.run_summary import summary_of
from tests.support.records import Make

CHECKOUT = {"sources_sha256": "c" * 64}


@pytest.mark.parametrize(
    ("reported", "code"),
    [
        ({}, "c" * 64),
        ({"sources_sha256": "a" * 64}, "a" * 64),
        ({"program_sha256": "b" * 64}, f"{'b' * 64} {'c' * 64}"),
        ({"program_sha256": None}, "c" * 64),
    ],
)
def test_the_code_of_a_run_is_what_its_processes_report_and_else_that_of_the_checkout(
    tmp_path: Path, make: Make, reported: dict[str, str | None], code: str
) -> None:
    folder = make.run(tmp_path, start=reported, code=CHECKOUT)
    assert summary_of(folder.read()).same["code"] == code
