"""The numbers of training loops: Python's, NumPy's and torch's."""

from typing import Any

import numpy as np
import pytest
import torch

from trainkit.figures import loss_sum, number_right, scalar


def test_a_number_of_any_library_is_accepted() -> None:
    assert {scalar("f1", value) for value in (2, np.float32(2), np.array([[2.0]]), torch.tensor([2]))} == {2.0}
    total = loss_sum(torch.tensor(3.0, requires_grad=True) * 2, 4)
    assert isinstance(total, torch.Tensor)
    assert (float(total), total.requires_grad, total.dtype) == (24.0, False, torch.float64)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        *((wrong, "TypeError: f1") for wrong in (True, "0.5", None, torch.tensor(True))),
        (np.zeros(2), "ValueError: f1"),
        (torch.zeros(0), "ValueError: f1"),
        (10**400, "ValueError: f1"),
    ],
)
def test_anything_but_one_number_is_an_error_with_the_name(value: Any, error: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        scalar("f1", value)
    assert f"{raised.typename}: {raised.value}".startswith(error)


def test_losses_of_samples_and_their_mean_have_the_same_sum() -> None:
    losses = torch.tensor([1.0, 2.0, 6.0], dtype=torch.float16)
    for loss in (losses, losses.mean(), 3.0, np.array([3.0])):
        assert float(loss_sum(loss, 3)) == 9.0


def test_correct_answers_may_be_a_number_or_truth_values() -> None:
    for right in (np.int64(2), torch.tensor(2), np.array([True, False, True]), torch.tensor([[True, True]])):
        assert int(number_right(right)) == 2
    with pytest.raises(TypeError):
        number_right(0.9)
