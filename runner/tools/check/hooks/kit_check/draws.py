"""Hooks for random draws, and a known seed for programs that set none."""

import functools
import linecache
import os
import random
import sys
import time
import zlib

from kit_check.recorder import recorder

_base = int(os.environ.get("KIT_CHECK_SEED", "0"))
_seeded = set()


def _watch(owners, name, value_of):
    recorder.hook(owners, name, after=lambda result, *args, **kwargs: _drawn(name, value_of(result, *args)))


def _drawn(name, value):
    place = recorder.place()
    line = linecache.getline(os.path.join(recorder.root, place[0][0]), place[0][1]) if place else "import "
    if not line.lstrip().startswith(("import ", "from ")):  # ignore draws while a library is imported
        recorder.emit("draw", name=name, number=zlib.crc32(repr(value)[:4000].encode()), place=place)


def _argument(_, given, *args):
    return list(given[:50]) if hasattr(given, "__getitem__") else given


def _result(result, *_):
    first = result[0] if isinstance(result, (list, tuple)) and result else result
    first = getattr(first, "indices", first)
    first = next(iter(first.values())) if isinstance(first, dict) and first else first
    if hasattr(first, "tolist") and hasattr(first, "shape"):
        return first[:50].tolist() if len(first.shape) else first.tolist()
    return list(first[:50]) if isinstance(first, (list, tuple)) else first


def _watch_seed(owners, function, name):
    def seed(*args, **kwargs):
        _seeded.add(name)
        recorder.emit("seed", name=name, place=recorder.place())

    recorder.hook(owners, function, seed)


def _faster(real, began, speed):
    return began + speed * (real() - began)


def of_python():
    """Install hooks on random. If `KIT_CHECK_CLOCK` is set, also make the program's clock faster."""
    if speed := float(os.environ.get("KIT_CHECK_CLOCK", "0")):
        for name in ("time", "monotonic", "perf_counter"):
            real = getattr(time, name)
            setattr(time, name, functools.partial(_faster, real, real(), speed))
    random.seed(_base + (recorder.rank or 0))
    _watch([random], "shuffle", _argument)
    _watch([random], "sample", _result)
    _watch_seed([random], "seed", "random")


def of_numpy(numpy):
    """Install hooks on numpy.random."""
    module = numpy.random
    module.seed(_base + (recorder.rank or 0))
    _watch([module], "shuffle", _argument)
    _watch([module], "permutation", _result)
    _watch([module], "choice", _result)
    _watch([module], "default_rng", lambda made, *_: made.bit_generator.state)
    _watch_seed([module], "seed", "numpy")


def of_sklearn(module):
    """Install hooks on scikit-learn's splits."""
    inner = sys.modules["sklearn.model_selection._split"]
    _watch([module, inner], "train_test_split", _result)
    for kind in (inner.BaseCrossValidator, inner.BaseShuffleSplit):
        kind.split = _folds(kind.split)


def _folds(function):

    @functools.wraps(function)
    def split(*args, **kwargs):
        for fold in function(*args, **kwargs):
            with recorder.guarded():
                _drawn("split", _result(fold))
            yield fold

    return split


def of_datasets(module):
    """Install hooks on `train_test_split` of Hugging Face datasets."""
    _watch([module.Dataset], "train_test_split", lambda result, *_: result["train"][:20])


def of_torch(torch):
    """Install hooks on torch's seed, `randperm` and `random_split`."""
    import torch.utils.data as data

    torch.manual_seed(_base + (recorder.rank or 0))
    _watch_seed([torch, torch.random], "manual_seed", "torch")
    _watch([torch], "randperm", _result)
    _watch([data, data.dataset], "random_split", _result)


def fingerprints():
    """Return a hash of the state of each random generator: torch's, numpy's and Python's."""
    numpy = sys.modules.get("numpy")
    states = {
        "torch": sys.modules["torch"].get_rng_state().tolist(),
        "numpy": numpy and numpy.random.get_state(),
        "random": random.getstate(),
    }
    return {f"of {name}": zlib.crc32(repr(state).encode()) for name, state in states.items()}


def seed_rank(torch, rank):
    """Seed a process again if only `init_process_group` tells its rank. Seeds that the program has set are kept."""
    if "RANK" in os.environ and os.environ["RANK"] == str(rank):
        return
    if "torch" not in _seeded:
        torch.manual_seed.__wrapped__(_base + rank)
    if "random" not in _seeded:
        random.seed.__wrapped__(_base + rank)
    if "numpy" in sys.modules and "numpy" not in _seeded:
        seed = sys.modules["numpy"].random.seed
        getattr(seed, "__wrapped__", seed)(_base + rank)
