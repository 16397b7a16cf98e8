"""Layouts: their text, and the ranks of their nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.layout import LARGEST_WORLD, Layout


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_a_layout_survives_its_canonical_form_and_ranks_count_on_from_node_to_node(processes: list[int]) -> None:
    layout = Layout.parse(str(Layout(tuple(processes))))
    assert [len(layout.ranks_of(node)) for node in range(layout.nodes)] == [*layout.processes] == processes
    ranks = [(rank, node) for node in range(layout.nodes) for rank in layout.ranks_of(node)]
    assert ranks == [(rank, layout.node_of(rank)) for rank in range(layout.world_size)]
    assert layout.node_of(-1) == layout.node_of(layout.world_size) == 0


def test_like_nodes_have_one_spelling() -> None:
    largest = f"1x{LARGEST_WORLD}"
    for text, canonical in {"2+2": "2x2", "2+3": "2+3", "01x02": "1x2", "3x99": "3x99", largest: largest}.items():
        assert str(Layout.parse(text)) == canonical


SENSELESS = "0x2 2x0 x 2x 1x2x3 1X2 -1x2 1+0 +1 1+ 2 1.5x2 1x2+1 ١x٢ ²x1".split()


@pytest.mark.parametrize(
    "text", [*SENSELESS, "", "1x2\n", 12, None, ["1x2"], f"1x{LARGEST_WORLD + 1}", f"1+{LARGEST_WORLD}"]
)
def test_any_other_value_is_refused_with_an_example(text: object) -> None:
    with pytest.raises(ValueError, match="for example 1x2") as caught:
        Layout.parse(text)
    assert str(text) in str(caught.value)
