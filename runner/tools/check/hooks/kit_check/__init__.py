"""The observer of `runner check`: it sees what a training process does, and changes none of its numbers.

It needs nothing but Python 3.8 and PyTorch 2.0, and puts its hooks on a module when the program has imported it. What
is seen is written as JSON lines, one file for each process. A hook that fails is noted, and ends nothing.
"""

import importlib.abc
import importlib.util
import sys

from kit_check import draws, printed
from kit_check.recorder import recorder


def _torch(module):
    from kit_check import collectives, forward, loaders, replay, saved, steps

    for part in (forward, loaders, steps, collectives, draws, replay, saved):
        with recorder.guarded():
            part.of_torch(module)


def _safetensors(module):
    from kit_check import saved

    saved.of_safetensors(module)


_HOOKS = {
    "torch": _torch,
    "numpy": draws.of_numpy,
    "sklearn.model_selection": draws.of_sklearn,
    "datasets": draws.of_datasets,
    "safetensors.torch": _safetensors,
}


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of the table as Python would, and puts the hooks on them once they are imported."""

    def __init__(self):
        self.done = set()

    def find_spec(self, name, path, target=None):  # noqa: ARG002 - as Python calls it
        if name not in _HOOKS or name in self.done:
            return None
        self.done.add(name)
        spec = importlib.util.find_spec(name)  # by the finders behind this one, which may have hooks of their own
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            with recorder.guarded():
                _HOOKS[name](module)

        spec.loader.exec_module = exec_module
        return spec


def install():
    """Begin to observe this process."""
    with recorder.guarded():
        recorder.begin()
        sys.meta_path.insert(0, _Finder())
        printed.of_python()
        draws.of_python()
    for name in [name for name in _HOOKS if name in sys.modules]:
        with recorder.guarded():
            _HOOKS[name](sys.modules[name])
