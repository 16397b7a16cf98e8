"""What makes a record doubtful: impossible figures, a loss that became NaN, processes that did not train together."""

from collections.abc import Iterator
from typing import Any

from runner.core.text import listed
from runner.core.values import LARGEST
from runner.records.folder import RawFiles, end_of
from runner.records.schema import Launch

MOST_KEPT = 20
NO_TRAINING = "no training of this layout: "
"""Start of a doubt after which nothing is compared."""
_LARGEST_NOTES = 10_000


class Doubts:
    """The doubts about one run, each once; at most `MOST_KEPT`, and the number of the others."""

    def __init__(self) -> None:
        self._kept: dict[str, None] = {}
        self._further = 0

    def add(self, doubt: str) -> None:
        """Add one sentence."""
        if doubt in self._kept or len(self._kept) < MOST_KEPT:
            self._kept[doubt] = None
        else:
            self._further += 1

    def all(self) -> list[str]:
        """Return the sentences in their order."""
        return [*self._kept, *([f"and {self._further:,} more of this kind"] if self._further else [])]


def figure(name: str, value: object) -> float | None:
    """Return a figure, None if it is not a number; ValueError if it cannot have been measured.

    Seconds, bytes and rates are 0 or more, an accuracy is a share from 0 to 1, and none is beyond `values.LARGEST`.
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    least = 0.0 if name.endswith(("accuracy", "seconds", "bytes", "per_second")) else -LARGEST
    if least <= value <= (1.0 if name.endswith("accuracy") else LARGEST):
        return value
    shown = f"{value:g}" if isinstance(value, float) or abs(value) < 10**15 else "beyond 10^15"
    raise ValueError(f"{name} {shown}: no such figure can be measured")


def nan_since(epochs: list[dict[str, Any]], evaluations: list[dict[str, Any]]) -> str | None:
    """Say since which epoch the loss was NaN or infinite; None if it always was finite.

    JSON has no such numbers: the loss is null, and `loss_hex` holds its value.
    """
    for what, rows in (("training", epochs), ("test", evaluations)):
        lost = [row for row in rows if "loss" in row and row["loss"] is None and "loss_hex" in row]
        if lost:
            name = "NaN" if lost[0]["loss_hex"] == "nan" else "infinite"
            since = "since" if rows[-1] is lost[-1] else "in"
            return f"nan-loss: the {what} loss is {name} {since} epoch {lost[0].get('epoch_num')}"
    return None


def not_trained(raw: RawFiles, launch: Launch) -> Iterator[str]:
    """Yield why a run that ended well did not train in its layout, by the notes of `runner/targets/hooks`.

    A program may end well and print losses although its processes trained alone, or not at all.
    """
    world = raw.layout.world_size
    paths = {rank: path for rank in range(world) if (path := raw.output(rank, "seen"))}
    seen = {rank: end_of(path, _LARGEST_NOTES).splitlines() for rank, path in paths.items()}
    noted = {line for lines in seen.values() for line in lines}
    if "spawned 0" in noted:
        yield f"{NO_TRAINING}torch.multiprocessing.spawn was told to start 0 processes"
    elif "optimizer" in noted and "gradient" not in noted:
        yield f"{NO_TRAINING}no gradient was computed: was it done before, by a checkpoint that it went on from?"
    if launch.definition.get("launcher") == "python":  # which starts as many as it wants
        return
    groups = {rank: [line.split()[1:] for line in lines if line.startswith("group ")] for rank, lines in seen.items()}
    sizes = {size for found in groups.values() for _, size in found}
    joined = {int(rank) for found in groups.values() for rank, size in found if size == str(world)}
    alone = [rank for rank, found in groups.items() if not any(size == str(world) for _, size in found)]
    if world > 1 and alone:
        what = f"joined a group of {listed(sorted(sizes))}" if sizes else "joined no process group"
        yield f"{NO_TRAINING}rank {listed(alone)} of {world} {what}, so each process may have trained by itself"
    elif (world > 1 and len(seen) == world and len(joined) < world) or (world == 1 and sizes - {"1"}):
        yield f"{NO_TRAINING}it has {world} processes, and groups of {listed(sorted(sizes))} were formed"
