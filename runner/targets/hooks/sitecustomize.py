"""Note how a process of a run uses torch. Let every rank write its stacks when it gets a signal.

The notes record which process group a process joins and whether it computes gradients. Each note is written once, as a
line of KIT_SEEN-rank<RANK>.seen, which `runner.records.parse` reads. Without the variable KIT_SEEN, nothing is noted.
Another `sitecustomize` further down `sys.path` still runs.
"""

import faulthandler
import os
import signal
import sys
from contextlib import suppress
from functools import wraps
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location

_HERE = os.path.dirname(os.path.abspath(__file__))
_noted = set()


def _note(words):
    if words not in _noted:
        _noted.add(words)
        try:
            with open(_PATH, "a") as file:
                file.write(words + "\n")
        except OSError:  # the note is lost, and the program goes on
            pass


def _after(module, name, words):
    function = getattr(module, name)

    @wraps(function)
    def noted(*args, **kwargs):
        result = function(*args, **kwargs)
        _note(words(*args, **kwargs))
        return result

    setattr(module, name, noted)


def _once(owner, name, words):
    function = getattr(owner, name)

    @wraps(function)
    def noted(*args, **kwargs):
        setattr(owner, name, function)
        _note(words)
        return function(*args, **kwargs)

    setattr(owner, name, noted)


def _groups(module):
    if "RANK" in os.environ:  # unset in torchrun, which imports torch too
        _note("torch")
    if hasattr(module, "init_process_group"):  # torch may be built without distributed
        _after(module, "init_process_group", lambda *_, **__: f"group {module.get_rank()} {module.get_world_size()}")


def _gradients(module):
    _once(module, "backward", "gradient")
    _once(module, "grad", "gradient")


def _spawned(function, args=(), nprocs=1, *_, **__):
    return f"spawned {nprocs}"


_WATCHED = {
    "torch.distributed.distributed_c10d": _groups,
    "torch.autograd": _gradients,
    "torch.optim.optimizer": lambda module: _once(module.Optimizer, "__init__", "optimizer"),
    "torch.multiprocessing.spawn": lambda module: _after(module, "start_processes", _spawned),
}


_observed = {}


def _observe(folder):
    """Load trainkit/observer as `kit_observer`, because the program may have a module `trainkit`."""
    if "kit_observer" not in sys.modules and sys.version_info >= (3, 8):  # for the observer's syntax
        place = os.path.join(folder, "__init__.py")
        spec = spec_from_file_location("kit_observer", place, submodule_search_locations=[folder])
        module = sys.modules["kit_observer"] = module_from_spec(spec)
        with suppress(OSError, ImportError):  # the copy is missing
            spec.loader.exec_module(module)
            if module.begin():
                _observed.update(module.WATCHED)


class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "torch" and {"KIT_OBSERVE", "RANK"} <= os.environ.keys():  # torchrun has no rank
            _observe(os.environ["KIT_OBSERVE"])
        if name not in _WATCHED and name not in _observed:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def watched(module):
                execute(module)
                for watch in (_observed.get(name), _WATCHED.get(name)):  # notes last: `_once` restores what it wrapped
                    if watch:
                        watch(module)

            spec.loader.exec_module = watched
        return spec


_spec = PathFinder.find_spec("sitecustomize", [folder for folder in sys.path if os.path.abspath(folder) != _HERE])
if _spec is not None and _spec.loader is not None:
    _spec.loader.exec_module(module_from_spec(_spec))
_PATH = f"{os.environ['KIT_SEEN']}-rank{os.environ.get('RANK', '0')}.seen" if "KIT_SEEN" in os.environ else os.devnull
if {"KIT_SEEN", "KIT_OBSERVE"} & os.environ.keys():
    sys.meta_path.insert(0, _Finder)
if "RANK" in os.environ:
    with suppress(AttributeError, OSError, ValueError):  # as trainkit/stacks.py does
        faulthandler.register(signal.SIGRTMIN + 9, file=os.memfd_create("kit-stacks"))
