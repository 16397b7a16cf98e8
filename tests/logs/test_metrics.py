"""`--metric NAME=REGEX`: the last match of the lowest rank, never a part of a number, and a bad one is refused."""

import io
from typing import Any

import pytest

from runner.core.errors import RequestError
from runner.logs.metrics import compiled, read_words
from runner.logs.reading import read_stream
from runner.logs.summary import summary


def read(text: str, pattern: str, **best: str) -> Any:
    metrics = compiled({"cost": {"pattern": pattern, **best}})
    return summary("a", read_stream(io.BytesIO(text.encode()).read, metrics=metrics))["metrics"]["cost"]


def test_the_last_match_of_the_lowest_rank_counts_and_its_best() -> None:
    text = "[rank1]: cost=9.5\n[rank0]: cost=0.5\n[rank0]: cost=0.25 cost=0.75\n[rank1]: cost=8.5\n"
    last = {"value": 0.75, "line": 3}
    assert read(text, r"cost=([\d.]+)", best="min") == {**last, "best": 0.25, "best_line": 3}
    assert read(text, r"cost=([\d.]+)", best="max") == {**last, "best": 0.75, "best_line": 3}
    assert read(text, r"cost=([\d.]+)") == last
    assert read("nothing\n", "cost=(.)") is None


def test_no_metric_is_taken_of_two_trainings() -> None:
    assert read("".join(f"Epoch {epoch}/2, Loss: 0.{epoch}\n" for epoch in (1, 2, 1, 2)), "Loss: (.*)") is None


@pytest.mark.parametrize("pattern", ["cost=({number})", r"cost=([\d,.]+)", r"cost=.*?([\d,.]+)", r"cost=([\d._]+)?"])
@pytest.mark.parametrize("number", "1_234 0x1F 3e 5k 0,97 12,34 0. 0,4193 1e-05 1.2.3 1_000".split() + ["1 234.5"])
def test_a_part_of_a_word_or_of_a_number_is_no_number(number: str, pattern: str) -> None:
    assert read(f"cost={number}\n", pattern) in ({"value": None, "line": 1}, {"value": 1e-05, "line": 1})


@pytest.mark.parametrize(
    ("text", "pattern", "value"),
    [
        ("cost=1,234,567.5\n", r"cost=([\d,.]+)", 1234567.5),
        ("cost=12s\n", "cost=({number})", 12),
        ("cost=5k\n", "cost=({number})k", 5),
        ("cost=97%", "cost=({number})", 97),
        ("cost=9", "cost=({number})", None),
        ("cost=12.5\n", "cost.*({number})", None),
        ("cost=\n", r"cost=([\d._]+)?", None),
    ],
)
def test_thousands_and_units_are_read_but_no_number_that_may_be_torn(text: str, pattern: str, value: Any) -> None:
    assert read(text, pattern) == {"value": value, "line": 1}


@pytest.mark.parametrize(
    ("word", "why"),
    [
        *((word, "NAME=REGEX") for word in ("loss", "Loss=loss (.)", "=loss (.)", "cost=price=(.)")),
        *((word, "one group") for word in ("loss=loss", "loss=loss (a)(b)")),
        *((word, "metric loss: ") for word in ("loss=loss (", r"loss=([\d.]+)")),
        ("loss=loss: ({numbr})", "'{number}'"),
    ],
)
def test_a_metric_that_cannot_be_used_is_refused_in_one_line(word: str, why: str) -> None:
    with pytest.raises(RequestError, match=f"^.*{why}.*$"):
        read_words(["cost=cost=(.)", word])
