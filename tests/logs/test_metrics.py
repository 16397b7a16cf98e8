"""`--metric NAME=REGEX`: the last match of the lowest rank, never a part of a number, and a bad one is refused."""

import io

import pytest

from runner.core.errors import RequestError
from runner.logs.metrics import compiled, read_words
from runner.logs.reading import read_stream
from runner.logs.summary import summary


def read(text: str, **metrics: dict[str, str]) -> dict[str, object]:
    return summary("a", read_stream(io.BytesIO(text.encode()).read, (), metrics=compiled(metrics)))["metrics"]


LOSS = {"pattern": r"cost=([\d.]+)", "best": "min"}


def test_the_last_match_of_the_lowest_rank_counts_and_its_best() -> None:
    text = "[rank1]: cost=9.5\n[rank0]: cost=0.5\n[rank0]: cost=0.25 cost=0.75\n[rank1]: cost=8.5\n"
    assert read(text, cost=LOSS) == {"cost": {"value": 0.75, "line": 3, "best": 0.25, "best_line": 3}}
    assert read("nothing\n", cost=LOSS) == {"cost": None}


@pytest.mark.parametrize("number", ["0,4193", "1e-05", "1.2.3", "1 234.5", "1_000", ""])
def test_the_beginning_of_a_number_and_what_python_alone_takes_for_one_are_none(number: str) -> None:
    pattern = r"cost=([\d._]+)?"
    assert read(f"cost=0.5\ncost={number}\n", cost={"pattern": pattern}) == {"cost": {"value": None, "line": 2}}


@pytest.mark.parametrize("number", ["1_234", "0x1F", "3e", "5k", "0,97", "12,34", "0."])
@pytest.mark.parametrize("pattern", ["cost=({number})", r"cost=([\d,.]+)", r"cost=.*?([\d,.]+)"])
def test_a_part_of_a_word_or_a_comma_that_parts_no_thousands_is_no_number(number: str, pattern: str) -> None:
    assert read(f"cost={number}\n", cost={"pattern": pattern}) == {"cost": {"value": None, "line": 1}}


@pytest.mark.parametrize(
    ("text", "pattern", "value"),
    [
        ("cost=1,234,567.5\n", r"cost=([\d,.]+)", 1234567.5),
        ("cost=12s\n", "cost=({number})", 12),
        ("cost=5k\n", "cost=({number})k", 5),
        ("cost=97%", "cost=({number})", 97),
        ("cost=9", "cost=({number})", None),
        ("cost=12.5\n", "cost.*({number})", None),
    ],
)
def test_thousands_and_units_are_read_and_a_number_that_may_be_torn_is_not(
    text: str, pattern: str, value: float | None
) -> None:
    assert read(text, cost={"pattern": pattern}) == {"cost": {"value": value, "line": 1}}


def test_a_shorthand_that_does_not_exist_is_refused_with_the_one_that_does() -> None:
    with pytest.raises(RequestError, match=r"did you mean '\{number\}'"):
        read_words(["loss=loss: ({numbr})"])


def test_of_two_trainings_no_metric_is_taken() -> None:
    lines = [f"Epoch {epoch}/2, Loss: 0.{epoch}\n" for epoch in (1, 2, 1, 2)]
    found = summary(
        "a",
        read_stream(io.BytesIO("".join(lines).encode()).read, metrics=compiled({"loss": {"pattern": "Loss: (.*)"}})),
    )
    assert (found["metrics"], found["last_train_loss"]) == ({"loss": None}, None)


@pytest.mark.parametrize(
    "word",
    ["loss", "Loss=loss (.)", "loss=loss", "loss=loss (a)(b)", "loss=loss (", r"loss=([\d.]+)", "=loss (.)"]
    + ["cost=price=(.)"],
)
def test_a_metric_that_cannot_be_used_is_refused_in_one_line(word: str) -> None:
    with pytest.raises(RequestError, match="metric") as error:
        read_words(["cost=cost=(.)", word])
    assert len(str(error.value).splitlines()) == 1
