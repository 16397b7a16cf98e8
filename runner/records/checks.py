"""What makes a record doubtful: figures that nothing can have measured, clocks and counts that contradict."""

from typing import Any

from runner.core.values import LARGEST, number

MOST_KEPT = 20
NO_TRAINING = "no training of this layout: "
"""How a doubt begins that leaves nothing to compare."""


class Doubts:
    """The doubts about one run, each once; of very many, the first ones and their number."""

    def __init__(self) -> None:
        self._kept: dict[str, None] = {}
        self._further = 0

    def add(self, doubt: str) -> None:
        """Take in one sentence."""
        if doubt in self._kept or len(self._kept) < MOST_KEPT:
            self._kept[doubt] = None
        else:
            self._further += 1

    def all(self) -> list[str]:
        """Return the sentences, in the order in which they came."""
        return [*self._kept, *([f"and {self._further:,} more of this kind"] if self._further else [])]


def nan_since(epochs: list[dict[str, Any]], evaluations: list[dict[str, Any]]) -> str | None:
    """Return since which epoch the loss of a run was no finite number; None if it always was one.

    JSON lacks such numbers, so the loss is null, and `loss_hex` is what it was.
    """
    for what, rows in (("training", epochs), ("test", evaluations)):
        lost = [row for row in rows if "loss" in row and row["loss"] is None and "loss_hex" in row]
        if lost:
            name = "NaN" if lost[0]["loss_hex"] == "nan" else "infinite"
            since = "since" if rows[-1] is lost[-1] else "in"
            return f"nan-loss: the {what} loss is {name} {since} epoch {lost[0].get('epoch_num')}"
    return None


def check_figure(name: str, value: object, doubts: Doubts, where: str = "") -> float | None:
    """Return a measured figure if its name allows its value, else None, and a doubt.

    Seconds, bytes and rates are 0 or more, an accuracy is a share from 0 to 1, and none is beyond `values.LARGEST`.
    """
    least = 0.0 if name.endswith(("accuracy", "seconds", "bytes", "per_second")) else -LARGEST
    found = number(value, least, 1.0 if name.endswith("accuracy") else LARGEST)
    if found is None and isinstance(value, int | float) and not isinstance(value, bool):
        shown = f"{value:g}" if isinstance(value, float) or abs(value) < 10**15 else "beyond 10^15"
        doubts.add(f"{where}{name} {shown}: no such figure can be measured")
    return found
