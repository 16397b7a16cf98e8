"""The state of this process's training, which the hooks share."""

import weakref


def parameters_of(optimizer):
    """Return an optimizer's parameters in the order of its groups."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


class State:
    """The state of a training."""

    def __init__(self):
        self.kept = 4  # steps whose gradients and batches are kept
        self.steps = 0
        self.depth = 0
        self.forward_rows = 0
        self.current = None
        self.optimizers = []
        self.wrapped = weakref.WeakSet()
        self.is_sharded = False

    def parameters(self):
        """Return the parameters of all optimizers, each once, in order."""
        return list({id(p): p for optimizer in self.optimizers for p in parameters_of(optimizer)}.values())


state = State()
