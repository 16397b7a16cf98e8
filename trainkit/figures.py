"""Numbers as training loops have them: Python's, NumPy's, and tensors on any device."""

import math
import operator
import re
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from trainkit.errors import one_line

_NAME = re.compile(r"[A-Za-z]\w{0,99}")


def scalar(name: str, value: Any) -> float:
    """Return one number, or that of an array or tensor with one element; a tensor on a GPU is waited for and copied.

    ValueError if it has another number of elements or is beyond a float, TypeError if it is no number; both name it.
    """
    shape = getattr(value, "shape", None)
    if shape is not None and hasattr(value, "item"):
        if math.prod(shape) != 1:
            raise ValueError(f"{name} has to be one number; it has the shape {tuple(shape)}")
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} has to be a number, not {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is beyond what a float holds") from None


def whole(name: str, value: Any) -> int:
    """Return a whole number: Python's, NumPy's, or a tensor with one element; TypeError if it is none."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} has to be a whole number, not {type(value).__name__}") from None


def count(name: str, value: Any) -> int:
    """Return a whole number of 0 or more; ValueError if it is negative, TypeError if it is no whole number."""
    number = whole(name, value)
    if isinstance(value, bool) or number < 0:
        raise ValueError(f"{name} has to be a whole number of 0 or more, not {value!r}")
    return number


def loss_sum(loss: Any, samples: int) -> Tensor | float:
    """Return the sum of a batch's losses, in float64; a tensor stays on its device, so that no step waits for it.

    The loss is the mean over the samples, as one number, or that of each, [samples]. ValueError for another shape,
    TypeError for what is no number.
    """
    if not isinstance(loss, Tensor):
        return scalar("the loss", loss) * samples
    values = loss.detach().to(torch.float64)
    if values.numel() == 1:
        return values.reshape(()) * samples
    if values.shape != (samples,):
        raise ValueError(
            f"the loss has to be one number, or one for each of {samples} samples; its shape is {tuple(loss.shape)}"
        )
    return values.sum()


def number_right(correct: Any) -> Tensor | int:
    """Return how many are right, given their number or whether each is, in any shape; a tensor stays on its device."""
    if isinstance(correct, Tensor):
        return correct.detach().sum()
    if getattr(correct, "shape", ()) != ():
        correct = correct.sum()
    return count("the number of correct samples", correct)


def figure(name: str, value: Any) -> float:
    """Return a measured figure, if its name allows its value; NaN and infinity are values too.

    ValueError for an accuracy that is no share from 0 to 1, for seconds, bytes or a rate below 0, and for a name that
    is none; TypeError for what is no number.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{one_line(name)!r} names no figure: a letter, then letters, digits and underscores, 100 at most"
        )
    measured = scalar(name, value)
    if name.endswith("accuracy") and (measured < 0 or measured > 1):
        raise ValueError(f"{name} has to be a share from 0 to 1, not {measured:g}: divide percent by 100")
    if name.endswith(("seconds", "bytes", "per_second")) and measured < 0:
        raise ValueError(f"{name} has to be 0 or more, not {measured:g}")
    return measured


def share_of(correct: int, samples: int) -> float:
    """Return the share of samples that are right, 0 to 1; ValueError if more are right than there are."""
    if correct > samples:
        raise ValueError(f"{correct} of {samples} samples cannot be right")
    return correct / samples
