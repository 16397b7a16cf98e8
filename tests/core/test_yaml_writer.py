"""Every YAML reader reads back the written values."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from runner.core.yaml_writer import to_yaml

AMBIGUOUS = (
    *"no NO on y Yes true ~ null 1e3 1. .5 0x1F 0o17 017 1_000 20:30 190:20:30 2001-01-01 0.1 1.5.0 0 00 1e-3".split(),
    *"= << - a: # &a *a !a | > %a @a `a {a [a ' \" \\ .inf .NaN +1 -1 -m --lr -y --- ... ${A:-0}:${B:-0} é".split(),
    *("", " ", "- a", "? a", "a: b", "a #b", "a\nb", "a\tb", " a", "a ", "--- a", "\x85", "\ufeff", "\u2028", "\x00"),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


def survives(value: Any) -> bool:
    """Return whether readers of YAML 1.1 (PyYAML) and 1.2 (ruamel) read a written value back."""
    text = to_yaml(value)
    return bool(yaml.safe_load(text) == YAML(typ="safe", pure=True).load(text) == value)


def test_a_text_stays_a_text_for_every_reader() -> None:
    assert [text for text in AMBIGUOUS if not survives({"a": text, text: "b", "list": [text]})] == []


@given(VALUES)
def test_whatever_is_written_is_read_back(value: object) -> None:
    assert survives({"value": value})


def test_keys_keep_their_order_nothing_is_shared_and_a_header_stands_above_as_comments() -> None:
    shared = {"z": "1", "a": ["x"]}
    text = to_yaml({"second": shared, "first": shared}, "One.\n\nTwo.")
    assert text == '# One.\n#\n# Two.\nsecond:\n  z: "1"\n  a: [x]\nfirst:\n  z: "1"\n  a: [x]\n'


def test_a_value_that_cannot_be_written_spoils_no_later_one() -> None:
    with pytest.raises(Exception, match="cannot represent"):
        to_yaml({"a": 1, "b": {"c": object()}})
    assert to_yaml({"a": 1}) == "a: 1\n"
