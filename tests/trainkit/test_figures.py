"""Numbers of training loops: Python's, NumPy's and torch's, with one element and with more."""

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import torch

from trainkit.figures import count, loss_sum, number_right, scalar


@pytest.mark.parametrize(
    "value",
    [2, 2.0, np.float32(2), np.int64(2), np.array(2), np.array([[2.0]]), torch.tensor(2), torch.tensor([2.0])],
    ids=repr,
)
def test_one_number_is_taken_whoever_made_it(value: Any) -> None:
    assert scalar("f1", value) == 2.0


def test_a_tensor_that_needs_its_gradient_is_a_number_too() -> None:
    assert scalar("loss", torch.tensor(0.5, requires_grad=True)) == 0.5
    weight = torch.tensor(3.0, requires_grad=True)
    assert isinstance(total := loss_sum(weight * 2, 4), torch.Tensor)
    assert (float(total), total.requires_grad, total.dtype) == (24.0, False, torch.float64)


@pytest.mark.parametrize("value", [True, "0.5", None, 1j, torch.tensor(True), Decimal("0.5")], ids=repr)
def test_what_is_no_number_is_a_type_error_with_the_name(value: Any) -> None:
    with pytest.raises(TypeError, match="f1 has to be a number, not"):
        scalar("f1", value)


@pytest.mark.parametrize("value", [np.zeros(2), torch.zeros(0), torch.zeros(2, 2)], ids=repr)
def test_several_numbers_are_a_value_error_with_their_shape(value: Any) -> None:
    with pytest.raises(ValueError, match=r"f1 has to be one number; it has the shape \("):
        scalar("f1", value)
    with pytest.raises(ValueError, match="beyond what a float holds"):
        scalar("f1", 10**400)


def test_the_losses_of_the_samples_and_their_mean_come_to_the_same() -> None:
    losses = torch.tensor([1.0, 2.0, 6.0], dtype=torch.float16)
    for loss in (losses, losses.mean(), 3.0, np.float32(3), np.array([3.0])):
        assert float(loss_sum(loss, 3)) == 9.0


def test_right_answers_may_be_counted_or_shown() -> None:
    shown = [True, False, True]
    for right in (2, np.int64(2), torch.tensor(2), torch.tensor(shown), np.array(shown), torch.tensor([shown])):
        assert int(number_right(right)) == 2
    with pytest.raises(TypeError, match="a whole number, not float"):
        number_right(0.9)


def test_counts_are_whole_and_not_below_zero() -> None:
    assert [count("n", one) for one in (3, np.int32(3), torch.tensor(3), np.array(3))] == [3] * 4
    for wrong in (-1, True):
        with pytest.raises(ValueError, match="a whole number of 0 or more"):
            count("n", wrong)
