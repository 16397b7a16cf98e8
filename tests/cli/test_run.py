"""What `runner run` says at its end."""

from pathlib import Path

from runner.cli.run import _where_the_time_went
from tests.support.records import Make


def test_the_time_of_all_runs_is_parted_into_training_and_the_rest(tmp_path: Path, make: Make) -> None:
    records = [make.run(tmp_path, seconds).read() for seconds in (10.0, 30.0)]
    assert _where_the_time_went(records) == " (training 40 s, all else 4 s)"


def test_a_time_that_is_longer_than_the_runs_took_is_not_repeated(tmp_path: Path, make: Make) -> None:
    record = make.run(tmp_path, 10.0).read()
    record.metrics["train_seconds"] = 100.0
    assert _where_the_time_went([record]) == ""


def test_nothing_is_said_of_programs_that_do_not_tell_how_long_they_trained(tmp_path: Path, make: Make) -> None:
    record = make.run(tmp_path, stdout={0: b"words"}).read()
    assert _where_the_time_went([record]) == ""


def test_a_failed_run_counts_for_nothing(tmp_path: Path, make: Make) -> None:
    records = [make.run(tmp_path, 10.0).read(), make.run(tmp_path, stdout={0: b"words"}).read()]
    records[1].status = "failed"
    assert _where_the_time_went(records) == " (training 10 s, all else 2 s)"
