"""How many processes run on which node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.layout import LARGEST_WORLD, Layout


@given(st.lists(st.integers(1, 64), min_size=1, max_size=8).map(tuple), st.integers(1, 99), st.integers(1, 99))
def test_a_layout_survives_its_canonical_form(processes: tuple[int, ...], nodes: int, per_node: int) -> None:
    layout = Layout(processes)
    assert Layout.parse(str(layout)) == layout
    like = Layout.parse(f"{nodes}x{per_node}")
    assert (like.nodes, like.world_size, str(like)) == (nodes, nodes * per_node, f"{nodes}x{per_node}")


@given(st.lists(st.integers(1, 9), min_size=2, max_size=6))
def test_ranks_count_on_from_node_to_node(processes: list[int]) -> None:
    layout = Layout.parse("+".join(map(str, processes)))
    ranks = [layout.first_rank(node) + local for node, count in enumerate(processes) for local in range(count)]
    assert ranks == list(range(layout.world_size))


def test_like_nodes_have_one_spelling() -> None:
    assert str(Layout.parse("2+2")) == "2x2"
    assert str(Layout.parse("2+3")) == "2+3"
    assert str(Layout.parse("01x02")) == "1x2"
    assert Layout.parse("2+2") == Layout.parse("2x2")


def test_the_largest_world_is_the_limit() -> None:
    assert Layout.parse(f"1x{LARGEST_WORLD}").world_size == LARGEST_WORLD
    for text in (f"1x{LARGEST_WORLD + 1}", f"1+{LARGEST_WORLD}"):
        with pytest.raises(ValueError, match="makes no sense"):
            Layout.parse(text)


SENSELESS = "0x2 2x0 x 2x 1x2x3 1X2 -1x2 1+0 +1 1+ 2 1.5x2 1x2+1 ١x٢ ²x1".split()


def test_a_layout_that_makes_no_sense_is_refused_with_an_example() -> None:
    for text in [*SENSELESS, "", "1x2\n", 12, None, ["1x2"]]:
        with pytest.raises(ValueError, match="makes no sense; .* for example 1x2") as caught:
            Layout.parse(text)
        assert str(text) in str(caught.value)


@given(st.text(st.sampled_from("0123456789x+ -"), max_size=20))
def test_any_word_is_a_layout_or_refused(text: str) -> None:
    try:
        layout = Layout.parse(text)
    except ValueError as error:
        assert "makes no sense" in str(error)
    else:
        assert 0 < layout.world_size <= LARGEST_WORLD
        assert min(layout.processes) > 0
