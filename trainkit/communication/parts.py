"""A rank's batch in parts, whose gradients are added up before a step is taken."""

import dataclasses
from typing import Any, TypeVar

from torch import Tensor

from trainkit import sharding as shards

Any_Batch = TypeVar("Any_Batch")


def parts(batch: Any_Batch, count: int) -> list[Any_Batch]:
    """Cut a batch into at most so many near-equal parts, none of them empty.

    Args:
        batch: a dataclass; its tensors have a row for each sample, `samples` says how many are the rank's own.
        count: at least 1.
    """
    if count == 1:
        return [batch]
    values: dict[str, Any] = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}  # type: ignore[arg-type]
    wholes = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    found = []
    count = min(count, values["samples"])
    for place in range(count):
        rows = shards.shard(values["samples"], place, count)
        own = {name: value[rows.start : rows.stop] for name, value in wholes.items()}
        found.append(dataclasses.replace(batch, samples=len(rows), **own))  # type: ignore[type-var]
    return found or [batch]  # a rank without samples takes part with its stand-in
