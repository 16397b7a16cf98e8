"""Numbers of training loops: Python's, NumPy's and torch's, with one element and with more."""

from typing import Any

import numpy as np
import pytest
import torch

from trainkit.figures import loss_sum, number_right, scalar


def test_one_number_is_taken_whoever_made_it() -> None:
    assert {scalar("f1", value) for value in (2, np.float32(2), np.array([[2.0]]), torch.tensor([2]))} == {2.0}
    assert scalar("loss", torch.tensor(0.5, requires_grad=True)) == 0.5
    weight = torch.tensor(3.0, requires_grad=True)
    assert isinstance(total := loss_sum(weight * 2, 4), torch.Tensor)
    assert (float(total), total.requires_grad, total.dtype) == (24.0, False, torch.float64)


def test_what_is_not_one_number_is_an_error_with_the_name_or_the_shape() -> None:
    wrong: list[Any] = [True, "0.5", None, torch.tensor(True)]
    for value in wrong:
        with pytest.raises(TypeError, match="f1 has to be a number, not"):
            scalar("f1", value)
    for several in (np.zeros(2), torch.zeros(0)):
        with pytest.raises(ValueError, match=r"f1 has to be one number; it has the shape \("):
            scalar("f1", several)
    with pytest.raises(ValueError, match="beyond what a float holds"):
        scalar("f1", 10**400)


def test_the_losses_of_the_samples_and_their_mean_come_to_the_same() -> None:
    losses = torch.tensor([1.0, 2.0, 6.0], dtype=torch.float16)
    for loss in (losses, losses.mean(), 3.0, np.array([3.0])):
        assert float(loss_sum(loss, 3)) == 9.0


def test_right_answers_may_be_counted_or_shown() -> None:
    shown = [True, False, True]
    for right in (np.int64(2), torch.tensor(2), np.array(shown), torch.tensor([shown])):
        assert int(number_right(right)) == 2
    with pytest.raises(TypeError, match="a whole number, not float"):
        number_right(0.9)
