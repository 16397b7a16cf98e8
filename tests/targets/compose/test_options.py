"""The options of target compose are parsed or refused."""

import pytest

from runner.core.errors import RequestError
from runner.targets.compose.link import parse_link
from runner.targets.compose.target import cpus_of, gpus_of


def test_each_node_gets_its_cores() -> None:
    assert (cpus_of("", 2), cpus_of("1", 3), cpus_of("1, 0.5", 2)) == ([0, 0], [1, 1, 1], [1, 0.5])


@pytest.mark.parametrize("text", ["0", "nan", "1,0.5"])
def test_wrong_or_too_few_cores_are_refused(text: str) -> None:
    with pytest.raises(RequestError, match="--with cpus="):
        cpus_of(text, 3)


def test_a_rate_is_read_as_tc_writes_it() -> None:
    assert (parse_link("64kbit"), parse_link("2.5gbit")) == (64_000, 2_500_000_000)
    with pytest.raises(RequestError, match="--with link="):
        parse_link("1kbit")


def test_each_node_gets_its_gpus() -> None:
    ids = [["0", "1"], ["2"]]
    assert gpus_of("", ids) == ids
    assert gpus_of("5, 3,GPU-0a1b2c3d", ids) == [["5", "3"], ["GPU-0a1b2c3d"]]


@pytest.mark.parametrize("text", ["1", "1,1,2", "all", "0,1,"])
def test_wrong_or_too_few_gpus_are_refused(text: str) -> None:
    with pytest.raises(RequestError, match="--with gpus="):
        gpus_of(text, [["0", "1"], ["2"]])
