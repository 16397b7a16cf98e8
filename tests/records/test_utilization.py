"""What a record keeps of the load of its nodes."""

import pytest

from runner.records.events import Event
from runner.records.run_events import MOST_POINTS, NodeLoad
from runner.records.schema import Load, mean_load


def node_load(events: list[Event], node: int = 0) -> Load:
    load = NodeLoad()
    for event in events:
        load.take(event)
    return load.summary(node)


def event(key: str, seconds: float, /, **metadata: object) -> Event:
    return Event(int(seconds * 1000), key, metadata=metadata)


def test_means_are_those_of_the_training_and_points_those_of_the_whole_run() -> None:
    looks = [event("load", second, cpu_percent=percent) for second, percent in enumerate([10, 20, 90, 100, 40], 1)]
    events = [event("run_start", 0), event("epoch_start", 2.0), event("epoch_stop", 3.2), *looks]
    points = {"seconds": [1.0, 2.0, 3.0, 4.0, 5.0], "cpu_percent": [10.0, 20.0, 90.0, 100.0, 40.0]}
    assert node_load(events) == Load(0, 5, {"cpu_percent": 95.0}, {"cpu_percent": 100}, points)


def test_a_run_without_epochs_is_taken_whole() -> None:
    node = node_load([event("load", second, cpu_percent=50.0 + second, gpu1_percent=7) for second in (1, 2)], 1)
    assert (node.node, node.mean) == (1, {"cpu_percent": 51.5, "gpu1_percent": 7.0})
    assert mean_load([node])["gpu_percent"] == pytest.approx(7.0)
    assert "memory_bytes" not in mean_load([node])


@pytest.mark.parametrize("looks", [1, 299, 301, 2000])
def test_a_long_run_keeps_few_points_that_stand_for_all_of_its_looks(looks: int) -> None:
    node = node_load([event("load", second, cpu_percent=second) for second in range(looks)])
    points = node.points["cpu_percent"]
    assert points == sorted(points)
    assert min(looks, MOST_POINTS) / 2 <= len(points) == len(node.points["seconds"])
    assert len(points) <= MOST_POINTS
    assert (node.looks, node.most["cpu_percent"]) == (looks, looks - 1)
    assert node.mean["cpu_percent"] == pytest.approx((looks - 1) / 2, abs=1)
