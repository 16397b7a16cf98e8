"""Links that are asked about: amounts with their units."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.errors import KitError, RequestError
from runner.tools.predict.links import LINKS, Assumed, assumed_of


def test_an_amount_has_its_unit() -> None:
    assert assumed_of(None, ["latency=0.2ms,bandwidth=1gbit", "gradients=90MB"]) == Assumed(2e-4, 125e6, 90e6)
    assert assumed_of(None, ["bandwidth=100 MB/s"]).bandwidth == 100e6
    assert assumed_of("1gbit", []) == Assumed(LINKS["1gbit"][1], 125e6)
    assert assumed_of("1gbit", ["latency=1ms"]) == Assumed(1e-3, 125e6)
    assert not assumed_of(None, ["gradients=1GiB"]).has_link


@pytest.mark.parametrize(
    ("link", "words", "why"),
    [
        ("2gbit", [], "--link 2gbit: unknown; did you mean"),
        (None, ["latency=5"], "latency=5: write an amount above zero with its unit, for example latency=0.2ms"),
        (None, ["bandwidth=0gbit"], "for example bandwidth=1gbit"),
        (None, ["speed=1gbit"], "--assume speed=1gbit: write one of latency=0.2ms, bandwidth=1gbit, gradients=90MB"),
        (None, ["latency"], "--assume latency: write one of"),
    ],
)
def test_what_is_no_amount_is_refused(link: str | None, words: list[str], why: str) -> None:
    with pytest.raises(RequestError) as caught:
        assumed_of(link, words)
    assert why in str(caught.value)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    for words in ([text], [f"latency={text}"]):
        try:
            assumed_of(None, words)
        except KitError as error:
            assert len(str(error).splitlines()) == 1
