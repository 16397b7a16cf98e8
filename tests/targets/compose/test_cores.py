"""The cores of containers are one figure for all of them, or one for each."""

import pytest

from runner.core.errors import RequestError
from runner.targets.compose.target import cpus_of, parse_cpus


@pytest.mark.parametrize(
    ("text", "nodes", "cpus"),
    [("", 2, [0, 0]), ("1", 3, [1, 1, 1]), ("1,0.5", 2, [1, 0.5]), ("1, 0.5", 1, [1]), ("0.01", 1, [0.01])],
)
def test_each_node_gets_its_figure(text: str, nodes: int, cpus: list[float]) -> None:
    assert cpus_of(parse_cpus(text), nodes) == cpus


@pytest.mark.parametrize("text", ["0", "-1", "1,", "one", "1e3", "0.001", "nan", "１", "1;0.5", "99999"])
def test_what_is_no_number_of_cores_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="write numbers of cores from 0.01, for example 1, or 1,0.5 for two nodes"):
        parse_cpus(text)


def test_too_few_figures_are_refused() -> None:
    with pytest.raises(RequestError, match=r"--with cpus=1,0\.5: 3 nodes need a figure each, or one for all"):
        cpus_of(parse_cpus("1,0.5"), 3)
