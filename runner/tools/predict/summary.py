"""What `runner summarize` shows of predictions."""

from pathlib import Path

from runner.report.run_summary import RunSummary
from runner.report.table import Table
from runner.tools.predict import MEASURE


def tables_if_known(results: Path, runs: list[RunSummary], experiment: str | None) -> list[Table]:
    """Return tables of what was predicted beside what was measured; none, at no cost, where no network was measured."""
    if not any(run.measure == MEASURE for run in runs):
        return []
    from runner.tools.predict.measured_table import tables  # it takes its time

    return tables(results, runs, experiment)
