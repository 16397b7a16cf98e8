"""What a page reads of single records."""

from pathlib import Path

from runner.report.run_summary import summary_of
from runner.tools.pages.details import details_of
from tests.support.records import Make
from tests.tools.pages.conftest import one_a_second


def test_the_load_of_gpus_over_time_is_the_mean_of_their_use_and_of_nothing_else(results: Path, make: Make) -> None:
    figures = {"gpu0_percent": 100.0, "gpu1_percent": 50.0, "gpu_throttled_percent": 0.0, "gpu_shared_percent": 0.0}
    looks = [("load", None, {**figures, "gpu0_memory_bytes": 3_000_000_000}) for _ in range(5)]
    start = ("run_start", None, {"host": "node-a", "device_name": "Toy GPU"})
    end = [("tracked_stats", {"train_seconds": 5.0}, {}), ("run_stop", None, {"status": "success"})]
    record = make.run(results, stdout={0: one_a_second(0, [start, *looks, *end])}, device="cuda").read()
    values = [value for _, value in details_of(record).load["gpu_percent"]]
    assert values == [75.0] * 5
    assert summary_of(record).load["gpu_percent"] == 75.0
