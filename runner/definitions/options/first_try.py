"""The arguments that make a first try of a program as short as possible."""

from runner.definitions.options.dataclasses_of_parsers import FEW_STEPS
from runner.definitions.options.option import Interface

_EPOCHS = {
    *("epochs", "num_epochs", "n_epochs", "nepochs", "max_epochs", "max_epoch", "num_train_epochs", "train_epochs"),
    *("total_epochs", "training_epochs", "n_epoch", "num_epoch", "nb_epochs", "nb_epoch", "nepoch", "epoch"),
}
_STEPS = {
    *("max_steps", "max_train_steps", "num_train_steps", "num_training_steps", "train_steps", "training_steps"),
    *("total_steps", "num_steps", "n_steps", "steps", "max_iters", "max_iter", "num_iters", "n_iters", "iters"),
    *("num_iterations", "max_iterations", "n_iterations", "iterations", "train_iters", "num_iter", "max_updates"),
    *("total_iters", "total_iterations", "limit_train_batches", "max_step", "num_batches_per_epoch"),
}
_OTHERS_HOLD = {"epoch": _EPOCHS - {"epoch"}}
"""`epoch` is the number of epochs only if nothing else is: elsewhere it is where a training goes on."""


def shortest(interface: Interface) -> dict[str, object]:
    """Return args that make a run short: one epoch, and a few steps; none if the program has no such argument."""
    names = {key.rpartition(".")[2] for key in interface.options}
    found = dict(interface.short)
    for key, option in interface.options.items():
        name = key.rpartition(".")[2]
        few = 1 if name in _EPOCHS else FEW_STEPS if name in _STEPS else None
        default = _number(option.default)
        is_untyped = option.kind == "value" and (option.default is None or default is not None)
        if few is None or names & _OTHERS_HOLD.get(name, set()) or not (is_untyped or option.kind in ("int", "float")):
            continue
        if default is not None and 1 <= default <= few:
            few = int(default)
        few = max(few, option.least or 0)
        if option.refuses(few) is None:
            found[key] = few
    return found


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    except ValueError:
        return None
