"""What the hooks know of the training in this process."""

import weakref

KEPT_STEPS = 4
"""Optimizer steps of which gradients and batches are kept."""


class State:
    """The training of this process as far as it was seen."""

    def __init__(self):
        self.steps = 0
        self.depth = 0
        self.current = None
        self.optimizers = []
        self.wrapped = weakref.WeakSet()
        self.is_sharded = False

    def parameters(self):
        """Return the parameters of all optimizers, each once, in the order of the optimizers."""
        found, seen = [], set()
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if id(parameter) not in seen:
                        seen.add(id(parameter))
                        found.append(parameter)
        return found


state = State()
