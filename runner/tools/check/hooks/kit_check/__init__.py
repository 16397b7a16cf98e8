"""The observer of `runner check`: records the events of a training process without changing its numbers.

Needs only Python 3.8 and PyTorch 2.0. Installs the hooks of a module when the program imports the module. Each process
writes a file of JSON lines. A hook that fails is recorded, but does not stop the program.
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
    """Calls the function in `_HOOKS` for a module after the module's import. Python's other finders find modules."""

    def __init__(self):
        self.done = set()

    def find_spec(self, name, path, target=None):  # noqa: ARG002 - Python's signature
        if name not in _HOOKS or name in self.done:
            return None
        self.done.add(name)
        spec = importlib.util.find_spec(name)  # asks the other finders, which may have their own hooks
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
    """Start observing this process."""
    with recorder.guarded():
        recorder.begin()
        sys.meta_path.insert(0, _Finder())
        printed.of_python()
        draws.of_python()
    for name in [name for name in _HOOKS if name in sys.modules]:
        with recorder.guarded():
            _HOOKS[name](sys.modules[name])
