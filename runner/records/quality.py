"""The figures of a run, besides its accuracy, that say what it has learned."""

import math
from typing import Any

from runner.core.text import one_line
from runner.core.values import number
from runner.records.schema import Record

TEST_LOSS, TRAINING_LOSS = "test loss", "training loss"
_LONGEST_NAME = 40

Figures = dict[str, list[float]]
"""Of each figure its first and its last value, the most telling figure first; a value that is no number is NaN."""


def figures_of(record: Record) -> Figures:
    """Return the figures of a run, besides its accuracy, that say what it has learned."""
    found: Figures = {}
    tests = [row["loss"] for row in record.evaluations if "loss" in row]
    epochs = [row["loss"] for row in record.epochs if "loss" in row]
    _take(found, TEST_LOSS, tests, record.metrics.get("final_eval_loss"))
    if evaluated := record.printed.get("final_eval"):  # of a program that knows nothing of the kit
        told = evaluated.get("value") if isinstance(evaluated, dict) else None
        if isinstance(told, dict) and told.get("metric") not in (None, "accuracy"):
            _take(found, *_printed(told))
    _take(found, TRAINING_LOSS, epochs, record.metrics.get("final_loss"))
    return found


def _take(found: Figures, name: str, values: list[Any], last: object = None) -> None:
    told = [*values, *([] if last is None else [last])]
    if told:
        first, final = (math.nan if (value := number(each)) is None else float(value) for each in (told[0], told[-1]))
        found.setdefault(name, [first, final])


def _printed(told: dict[str, Any]) -> tuple[str, list[Any]]:
    """Name a figure that a program printed; a perplexity is compared as the loss whose exponential it is."""
    metric, value = one_line(told["metric"], _LONGEST_NAME), number(told.get("value"))
    if metric == "perplexity":
        return TEST_LOSS, [math.log(value) if value and value > 0 else None]
    return (TEST_LOSS if metric == "val_loss" else metric), [value]
