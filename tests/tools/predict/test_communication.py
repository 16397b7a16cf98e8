"""Communications: how they are written, and how many bytes each sends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.errors import KitError, RequestError
from runner.tools.predict.communication import KINDS, NUMBERS, Communication
from runner.tools.predict.step import Bucket, Matrix, Step

STEP = Step(64, (Bucket(1e6, 0.4), Bucket(3e6, 1.0)), 4e6, matrices=(Matrix(1000, 500, 1), Matrix(2, 3, 4)))


def sent(text: str) -> float:
    return sum(exchange.size for exchange in Communication.parse(text).exchanges(STEP))


def test_each_choice_sends_its_bytes() -> None:
    assert sent("ddp") == 4e6
    assert sent("fp16") == sent("bf16") == 2e6
    assert sent("powersgd=2") == 4e6 - 4 * (1000 * 500 - 2 * 1500)
    assert sent("powersgd=400") == 4e6  # no thinner than the matrix: it is sent as it is
    assert sent("local-sgd=8") == sent("diloco=8") == 4e6
    assert 0 < sent("shared-memory") < 100  # but through the memory go all
    assert Communication.parse("shared-memory").memory_bytes(STEP) > 4e6


def test_how_often_it_is_sent() -> None:
    every = {"ddp": 1, "local-sgd=8": 8, "accumulate=4": 4, "local-sgd=8+accumulate=4": 32}
    assert {text: Communication.parse(text).every() for text in every} == every


def test_parameters_are_also_exchanged_at_the_end_of_an_epoch() -> None:
    assert Communication.parse("local-sgd=16").every(20) == 10
    assert Communication.parse("local-sgd=16").every(7) == 7
    assert Communication.parse("local-sgd=16").every(0.5) == 1
    assert Communication.parse("ddp").every(7) == 1


def test_the_bytes_that_a_step_moves_are_those_of_a_ring() -> None:
    assert Communication.parse("ddp").moved_bytes(STEP, 2, 0) == 8e6
    assert Communication.parse("shared-memory").moved_bytes(STEP, 2, 0) == 8e6
    assert Communication.parse("fp16").moved_bytes(STEP, 3, 0) == 8e6
    assert Communication.parse("local-sgd=4").moved_bytes(STEP, 2, 10) == 8e6 / (10 / 3)
    assert Communication.parse("ddp").moved_bytes(STEP, 1, 0) == 0


def test_gradients_of_half_the_size_are_sent_as_they_are() -> None:
    step = Step(64, (Bucket(1e6, 1.0),), 1e6, element_bytes=2)
    [exchange] = Communication.parse("fp16").exchanges(step)
    assert (exchange.size, exchange.half) == (1e6, False)


@given(st.sampled_from(KINDS), st.integers(1, 999_999), st.integers(1, 999_999))
def test_what_is_written_is_read_again(kind: str, number: int, accumulate: int) -> None:
    communication = Communication(kind, number if kind in NUMBERS else 1, accumulate)
    assert Communication.parse(str(communication)) == communication


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        Communication.parse(text)
    except KitError as error:
        assert len(str(error).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("fp61", "--communication fp61: unknown; did you mean 'fp16'?"),
        ("fp16=3", "--communication fp16=3: fp16 takes no number"),
        ("powersgd=0", "write its rank as a whole number from 1"),
        ("local-sgd=many", "write its steps as a whole number from 1, for example local-sgd=32"),
        ("ddp+fp16", "--communication ddp+fp16: unknown"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, why: str) -> None:
    with pytest.raises(RequestError) as caught:
        Communication.parse(text)
    assert why in str(caught.value)
