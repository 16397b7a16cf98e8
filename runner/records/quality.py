"""The figures of a run, besides its accuracy, that say what it has learned."""

import math

from runner.records.schema import Record

TEST_LOSS, TRAINING_LOSS = "test loss", "training loss"

Figures = dict[str, list[float]]
"""Of each figure its first and its last value, the most telling figure first; a value that is no number is NaN."""


def figures_of(record: Record) -> Figures:
    """Return the figures of a run, besides its accuracy, that say what it has learned."""
    found: Figures = {}
    tests = [row["loss"] for row in record.evaluations if "loss" in row]
    epochs = [row["loss"] for row in record.epochs if "loss" in row]
    _take(found, TEST_LOSS, tests, record.metrics.get("final_eval_loss"))
    if evaluated := record.printed.get("final_eval"):  # of a program that knows nothing of the kit
        metric, value = evaluated["value"]["metric"], evaluated["value"]["value"]
        if metric == "perplexity":  # it is compared as the loss whose exponential it is
            metric, value = TEST_LOSS, math.log(value) if value and value > 0 else None
        if metric not in (None, "accuracy"):
            _take(found, TEST_LOSS if metric == "val_loss" else metric, [value])
    _take(found, TRAINING_LOSS, epochs, record.metrics.get("final_loss"))
    return found


def _take(found: Figures, name: str, values: list[float | None], last: float | None = None) -> None:
    told = [*values, *([] if last is None else [last])]
    if told:
        found.setdefault(name, [math.nan if value is None else value for value in (told[0], told[-1])])
