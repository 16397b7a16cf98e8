"""What `runner run` says at its end."""

from pathlib import Path

from runner.cli.run import _where_the_time_went
from tests.support.records import Make


def test_the_time_of_all_runs_is_parted_into_training_and_the_rest(tmp_path: Path, make: Make) -> None:
    records = [make.run(tmp_path, seconds).read() for seconds in (10.0, 30.0)]
    silent = make.run(tmp_path, stdout={0: b"words"}).read()
    assert _where_the_time_went(records) == " (training 40 s, all else 4 s)"
    assert _where_the_time_went([silent]) == ""
    silent.status = "failed"
    assert _where_the_time_went([*records, silent]) == " (training 40 s, all else 4 s)"
    records[0].metrics["train_seconds"] = 100.0  # longer than the run took
    assert _where_the_time_went(records[:1]) == ""
