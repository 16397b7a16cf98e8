"""Checks and conversions of the numbers in training loops: Python's, NumPy's, and tensors on any device."""

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
    """Convert a number, or an array or tensor with one element, to a float; waits for a GPU tensor and copies it.

    Raises ValueError for another shape or a number beyond a float, TypeError for a non-number.
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
        raise ValueError(f"{name} is too large for a float") from None


def whole(name: str, value: Any) -> int:
    """Convert an integer of Python, NumPy or a one-element tensor to an int; TypeError for anything else."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} has to be a whole number, not {type(value).__name__}") from None


def count(name: str, value: Any) -> int:
    """Convert an integer that is not negative; ValueError if it is negative, TypeError if it is not an integer."""
    number = whole(name, value)
    if isinstance(value, bool) or number < 0:
        raise ValueError(f"{name} has to be a whole number of 0 or more, not {value!r}")
    return number


def loss_sum(loss: Any, samples: int) -> Tensor | float:
    """Return the sum of a batch's losses in float64; tensors stay on their device, so that no step waits for them.

    The loss is the mean over the samples, as one number, or a tensor [samples]. Raises ValueError for another shape and
    TypeError for a non-number.
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
    """Return the number of correct samples, given as a number or as truth values; tensors stay on their device."""
    if isinstance(correct, Tensor):
        return correct.detach().sum()
    if getattr(correct, "shape", ()) != ():
        correct = correct.sum()
    return count("the number of correct samples", correct)


def figure(name: str, value: Any) -> float:
    """Return a metric's value as a float after checking it against its name; NaN and infinity are allowed.

    Raises TypeError for a non-number, and ValueError for an invalid name, an accuracy outside 0 to 1, or negative
    seconds, bytes or rates.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{one_line(name)!r} cannot name a figure: use a letter, then letters, digits and underscores, 100 at most"
        )
    measured = scalar(name, value)
    if name.endswith("accuracy") and (measured < 0 or measured > 1):
        raise ValueError(f"{name} has to be a share from 0 to 1, not {measured:g}: divide percent by 100")
    if name.endswith(("seconds", "bytes", "per_second")) and measured < 0:
        raise ValueError(f"{name} has to be 0 or more, not {measured:g}")
    return measured


def share_of(correct: int, samples: int) -> float:
    """Return the accuracy, 0 to 1; ValueError if `correct` is larger than `samples`."""
    if correct > samples:
        raise ValueError(f"{correct} of {samples} samples cannot be correct")
    return correct / samples
