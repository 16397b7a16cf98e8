"""The load of nodes in a record."""

import pytest

from runner.records.events import Event
from runner.records.run_events import MOST_POINTS, NodeLoad
from runner.records.schema import Load, mean_load


def node_load(*events: tuple[str, float, dict[str, float]]) -> Load:
    load = NodeLoad()
    for key, seconds, metadata in events:
        load.take(Event(1000 * seconds, key, metadata=metadata))
    return load.summary(1)


def test_means_are_those_of_the_training_and_points_those_of_the_whole_run() -> None:
    percents = [10.0, 20.0, 90.0, 100.0, 40.0]
    samples = [("load", second, {"cpu_percent": percent}) for second, percent in enumerate(percents, 1)]
    load = node_load(("run_start", 0, {}), ("epoch_start", 2, {}), ("epoch_stop", 3.2, {}), *samples)
    points = {"seconds": [1.0, 2.0, 3.0, 4.0, 5.0], "cpu_percent": percents}
    assert load == Load(1, 5, {"cpu_percent": 95.0}, {"cpu_percent": 100}, points)


def test_a_run_without_epochs_is_taken_whole() -> None:
    node = node_load(*(("load", second, {"cpu_percent": 50.0 + second, "gpu1_percent": 7}) for second in (1, 2)))
    assert node.mean == {"cpu_percent": 51.5, "gpu1_percent": 7.0}
    assert mean_load([node]) == {"cpu_percent": 51.5, "gpu_percent": 7.0}


@pytest.mark.parametrize("samples", [1, 299, 301, 2000])
def test_a_long_run_keeps_few_points_that_stand_for_all_of_its_samples(samples: int) -> None:
    node = node_load(*(("load", second, {"cpu_percent": second}) for second in range(samples)))
    points = node.points["cpu_percent"]
    assert points == sorted(points)
    assert min(samples, MOST_POINTS) / 2 <= len(points) == len(node.points["seconds"]) <= MOST_POINTS
    assert (node.looks, node.most["cpu_percent"]) == (samples, samples - 1)
    assert node.mean["cpu_percent"] == pytest.approx((samples - 1) / 2, abs=1)
