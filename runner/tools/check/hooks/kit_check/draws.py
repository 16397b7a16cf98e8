"""Sees what the program draws at random, and gives a program that sets no seed one that is known."""

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


def _draw(function, name, result_of):
    @functools.wraps(function)
    def drawn(*args, **kwargs):
        result = function(*args, **kwargs)
        with recorder.guarded():
            place = recorder.place()
            if recorder.is_here and place and not _is_import(place[0]):
                text = repr(result_of(args, result))[:4000]
                recorder.emit("draw", name=name, number=zlib.crc32(text.encode()), place=place)
        return result

    return drawn


def _is_import(frame):
    """Return whether a line imports something: what a library draws then is its own business."""
    line = linecache.getline(os.path.join(recorder.root, frame[0]), frame[1])
    return line.lstrip().startswith(("import ", "from "))


def _argument(args, _):
    return list(args[0][:50]) if hasattr(args[0], "__getitem__") else args[0]


def _result(_, result):
    first = result[0] if isinstance(result, (list, tuple)) and result else result
    first = getattr(first, "indices", first)
    first = next(iter(first.values())) if isinstance(first, dict) and first else first
    if hasattr(first, "tolist") and hasattr(first, "shape"):
        return first[:50].tolist() if len(first.shape) else first.tolist()
    return list(first[:50]) if isinstance(first, (list, tuple)) else first


def _seeding(function, name):
    @functools.wraps(function)
    def seed(*args, **kwargs):
        with recorder.guarded():
            _seeded.add(name)
            recorder.emit("seed", name=name, place=recorder.place())
        return function(*args, **kwargs)

    return seed


def _faster(real, began, speed):
    return began + speed * (real() - began)


def of_python():
    """Put the hooks on the module random, and let the program's clock run faster if that is asked for."""
    if speed := float(os.environ.get("KIT_CHECK_CLOCK", "0")):
        for name in ("time", "monotonic", "perf_counter"):
            real = getattr(time, name)
            setattr(time, name, functools.partial(_faster, real, real(), speed))
    random.seed(_base + (recorder.rank or 0))
    random.shuffle = _draw(random.shuffle, "random.shuffle", _argument)
    random.sample = _draw(random.sample, "random.sample", _result)
    random.seed = _seeding(random.seed, "random")


def of_numpy(numpy):
    """Put the hooks on numpy.random."""
    module = numpy.random
    module.seed(_base + (recorder.rank or 0))
    module.shuffle = _draw(module.shuffle, "numpy.random.shuffle", _argument)
    module.permutation = _draw(module.permutation, "numpy.random.permutation", _result)
    module.choice = _draw(module.choice, "numpy.random.choice", _result)
    module.default_rng = _draw(module.default_rng, "numpy.random.default_rng", lambda _, made: made.bit_generator.state)
    module.seed = _seeding(module.seed, "numpy")


def of_sklearn(module):
    """Put the hooks on the splits of scikit-learn."""
    split = _draw(module.train_test_split, "train_test_split", _result)
    inner = sys.modules["sklearn.model_selection._split"]
    module.train_test_split = inner.train_test_split = split
    for kind in (inner.BaseCrossValidator, inner.BaseShuffleSplit):
        kind.split = _folds(kind.split)


def _folds(function):
    """Write what a splitter draws for each fold; the program's line is the one that asks for it."""

    @functools.wraps(function)
    def split(*args, **kwargs):
        for fold in function(*args, **kwargs):
            with recorder.guarded():
                place = recorder.place()
                if recorder.is_here and place:
                    text = repr(_result(args, fold))
                    recorder.emit("draw", name="split", number=zlib.crc32(text.encode()), place=place)
            yield fold

    return split


def of_datasets(module):
    """Put the hooks on the split of Hugging Face datasets."""
    kind = module.Dataset
    kind.train_test_split = _draw(kind.train_test_split, "train_test_split", lambda _, result: result["train"][:20])


def of_torch(torch):
    """Put the hooks on torch's generators and its split."""
    import torch.utils.data as data

    torch.manual_seed(_base + (recorder.rank or 0))
    torch.manual_seed = torch.random.manual_seed = _seeding(torch.manual_seed, "torch")
    torch.randperm = _draw(torch.randperm, "torch.randperm", _result)
    data.random_split = data.dataset.random_split = _draw(data.random_split, "random_split", _result)


def fingerprints():
    """Return a number for the state of each generator: of torch, numpy and random."""
    numpy = sys.modules.get("numpy")
    states = {
        "torch": sys.modules["torch"].get_rng_state().tolist(),
        "numpy": numpy and numpy.random.get_state(),
        "random": random.getstate(),
    }
    return {f"of {name}": zlib.crc32(repr(state).encode()) for name, state in states.items()}


def seed_rank(torch, rank):
    """Give a process that learns its rank late a seed of its own, if the program has set none."""
    if "RANK" in os.environ and os.environ["RANK"] == str(rank):
        return
    if "torch" not in _seeded:
        torch.manual_seed.__wrapped__(_base + rank)
    if "random" not in _seeded:
        random.seed.__wrapped__(_base + rank)
    if "numpy" in sys.modules and "numpy" not in _seeded:
        seed = sys.modules["numpy"].random.seed
        getattr(seed, "__wrapped__", seed)(_base + rank)
