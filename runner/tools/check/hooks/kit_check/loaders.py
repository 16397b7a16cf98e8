"""Hooks on data loaders that record samples and end long passes early."""

import json
import os
import weakref
from collections import deque

from kit_check import replay, sample_rows
from kit_check.recorder import recorder
from kit_check.state import state

_LONG_SECONDS = 4.0
_LONG_BATCHES = 50
_WHOLE_PASSES = 3
_SHORT_PASSES = 20
_MOST_INDICES = 2_000_000
_caps = json.loads(os.environ.get("KIT_CHECK_CAPS", "{}"))
_places = weakref.WeakKeyDictionary()
_indices = weakref.WeakKeyDictionary()
_passes = {}
_taken_up = {}
_begun = {}
_alive = {}
_datasets = []


def of_torch(torch):
    """Install hooks on loaders and samplers."""
    from torch.utils.data import DataLoader, DistributedSampler
    from torch.utils.data import dataloader as module

    def made(self, *args, **kwargs):
        _places.setdefault(self, recorder.place())

    def taken(index, self):
        _indices.setdefault(self, deque()).append(index)

    def reset(self, *args, **kwargs):
        _indices[self] = deque()

    def set_epoch(*args, **kwargs):
        recorder.emit("set_epoch", place=recorder.place())

    iterate = DataLoader.__iter__

    def __iter__(self):
        inner = iterate(self)
        with recorder.guarded():
            if recorder.is_here:
                return Pass(self, inner)
        return inner

    recorder.hook([DataLoader], "__init__", made)
    recorder.hook([DistributedSampler], "__init__", made)
    recorder.hook([DistributedSampler], "set_epoch", set_epoch)
    recorder.hook([module._BaseDataLoaderIter], "_next_index", after=taken)
    recorder.hook([module._BaseDataLoaderIter], "_reset", reset)
    DataLoader.__iter__ = __iter__


class Pass:
    """One iteration over a loader."""

    def __init__(self, loader, inner):
        self._loader, self._inner = loader, inner
        self._delivered, self._steps, self._began = 0, state.steps, recorder.clock()
        self.rows, self._tensors = 0, []
        self.number = sum(_passes.values())
        place = _places.get(loader, [])
        self.key = ":".join(map(str, place[0][:2])) if place else type(loader.dataset).__name__
        if number := _among_loaders_of_a_place(self.key, loader):
            self.key += f"#{number}"
        if _begun.get(self.key, state.steps) < state.steps:
            _take_up(self.key)
        _begun[self.key], self.earlier = state.steps, _taken_up.get(self.key, 0)
        _passes[self.key] = _passes.get(self.key, 0) + 1
        replay.begin(self.key)
        self._saved = replay.batches(self.key) if recorder.mode == "replay" else None
        self._describe(place)

    def _describe(self, place):
        from torch.utils.data import IterableDataset

        loader = self._loader
        sampler = getattr(loader, "sampler", None)
        inner = getattr(getattr(loader, "batch_sampler", None), "sampler", None)
        sampler = inner if inner is not None and type(sampler).__name__ == "SequentialSampler" else sampler
        base = _base(loader.dataset, 0)[0]
        length = getattr(base, "__len__", None)
        if not any(known is base for known in _datasets):
            _datasets.append(base)
        recorder.emit(
            "pass",
            number=self.number,
            key=self.key,
            loader=place,
            sampler=type(sampler).__name__,
            shuffles=bool(getattr(sampler, "shuffle", False)),
            sampler_place=_place_of(loader.dataset if isinstance(loader.dataset, IterableDataset) else sampler),
            size=length() if length else None,
            batches=_length(loader),
            workers=loader.num_workers,
            base=next(number for number, known in enumerate(_datasets) if known is base),
            step=state.steps,
            place=recorder.place(),
        )

    def __iter__(self):
        return self

    def __len__(self):
        return len(self._loader)

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def __next__(self):
        with recorder.guarded():
            state.current = self
            if self._saved:
                self._delivered += 1
                return replay.joined(self._saved.pop(0), self._loader)
        if self._saved is not None or (not recorder.is_whole and self._is_enough()):
            self._end(cut=True)
            raise StopIteration
        try:
            batch = next(self._inner)
        except StopIteration:
            self._end(cut=False)
            raise
        with recorder.guarded():
            self._delivered += 1
            if self._delivered > 1:
                _take_up(self.key)
            self._write(batch)
        return batch

    def rows_of(self, tensors):
        """Return the rows of the last batch that enter a model. Returns None if all rows enter, or if unknown."""
        for given in tensors:
            if given.dim() and 0 < len(given) < self.rows:
                own = sample_rows.hashes([given], len(given))
                for tensor in self._tensors:
                    is_alike = tensor.dim() and len(tensor) == self.rows and tensor.dtype == given.dtype
                    if is_alike and (places := sample_rows.found_in(sample_rows.hashes([tensor], self.rows), own)):
                        return places
        return None

    @property
    def trains(self):
        """Whether an optimizer made a step during the pass."""
        return state.steps > self._steps

    def _is_enough(self):
        if not self._delivered:
            if self.earlier >= _WHOLE_PASSES + _SHORT_PASSES and state.steps:
                recorder.leave()
            return False
        if self._delivered % recorder.world:
            return False  # ranks that take turns at one loader must get equally many batches
        if self.earlier >= _WHOLE_PASSES:
            return True
        cap = _caps.get("train" if self.trains else "other")
        if cap is not None:
            return self._delivered >= cap
        if recorder.world > 1:
            return False
        return self._delivered >= _LONG_BATCHES and recorder.clock() - self._began > _LONG_SECONDS

    def _end(self, *, cut):
        rest = []
        with recorder.guarded():
            _take_up(self.key)
            if cut:
                rest = self._rest() if self.earlier < _WHOLE_PASSES else None
            recorder.emit(
                "pass_end", number=self.number, cut=cut, batches=self._delivered, trains=self.trains, rest=rest
            )
        state.current = None

    def _rest(self):
        """Return the indices of the samples that were not fetched.

        Returns None if there are too many indices, or if one is missing.
        """
        indices = []
        for index in [*_indices.get(self._inner, ()), *self._inner._sampler_iter]:
            if index is None or (isinstance(index, list) and None in index):
                return None
            indices += _resolved(self._loader.dataset, index)
            if len(indices) > _MOST_INDICES:
                return None
        return indices

    def _write(self, batch):
        queue = _indices.get(self._inner)
        index = queue.popleft() if queue else None
        tensors = sample_rows.tensors_in(batch)
        indices = None
        if index is not None and not (isinstance(index, list) and None in index):
            indices = _resolved(self._loader.dataset, index)
        number = len(indices) if isinstance(index, list) and indices else sample_rows.rows_of(tensors)
        self.rows, self._tensors = number, tensors
        hashes = sample_rows.hashes(tensors, number)
        recorder.emit("batch", run=self.number, step=state.steps, rows=number, indices=indices, hashes=hashes)
        replay.keep_batch(self.key, batch, index)


def _length(loader):
    try:
        return len(loader)
    except TypeError:  # an iterable data set may have no length
        return None


def _place_of(sampler):
    code = getattr(getattr(type(sampler), "__iter__", None), "__code__", None)
    if code is not None and recorder.is_own(code.co_filename):
        return [recorder.line(code.co_filename, code.co_firstlineno, code.co_name)]
    try:
        return _places.get(sampler, [])
    except TypeError:  # a range or list allows no weak reference
        return []


def _take_up(key):
    if _begun.pop(key, None) is not None:
        _taken_up[key] = _taken_up.get(key, 0) + 1


def _among_loaders_of_a_place(key, loader):
    slots = _alive.setdefault(key, [])
    own = next((at for at, slot in enumerate(slots) if slot() is loader), None)
    if own is None:
        own = next((at for at, slot in enumerate(slots) if slot() is None), len(slots))
        slots[own : own + 1] = [weakref.ref(loader)]
    return own


def _base(dataset, index):
    while hasattr(dataset, "indices") and hasattr(dataset, "dataset") and not callable(dataset.indices):
        index = dataset.indices[index] if len(dataset.indices) else index
        dataset = dataset.dataset
    return dataset, index


def _resolved(dataset, index):
    if isinstance(index, (list, tuple)):
        return [part for each in index for part in _resolved(dataset, each)]
    index = _base(dataset, index)[1]
    return [int(index)] if hasattr(index, "__index__") or hasattr(index, "__int__") else [repr(index)]
