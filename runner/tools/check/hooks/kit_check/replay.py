"""Keep each rank's first batches, weights and gradients, and let one process train on the batches of all ranks.

With `KIT_CHECK_MODE=replay`, a loader yields the batches of all ranks joined into one. If the ranks train correctly,
their gradient equals the gradient of one process for this large batch, in direction and scale.
"""

import functools
import os

from kit_check import sample_rows
from kit_check.recorder import recorder
from kit_check.state import state

_MOST_BYTES = 300_000_000
_ALIKE = 3e-2
"""Relative difference of gradients that half precision may cause."""
_bytes = 0
_kept = {"weights": [], "steps": [], "arguments": [], "targets": [], "drawn": []}
_passes = {}
_DRAWS = ("randn", "rand", "randint", "randn_like", "rand_like", "randint_like", "normal", "bernoulli")
_saved = False
_ranks = []
_given = {}
_loaded = False
_sequential = os.environ.get("KIT_CHECK_SEQUENTIAL") == "1"
_reversed = os.environ.get("KIT_CHECK_REVERSED") == "1"


def of_torch(torch):
    """In a replay, load the files that the ranks saved. If `KIT_CHECK_QUIET` is set, remove dropout and other noise."""
    if recorder.mode == "replay":
        folder = os.environ["KIT_CHECK_KEPT"]
        while os.path.exists(path := os.path.join(folder, f"kept-{len(_ranks)}.pt")):
            _ranks.append(torch.load(path, weights_only=False))
        state.kept = max([state.kept, *(len(rank["steps"]) for rank in _ranks)])
    for name in _DRAWS:
        setattr(torch, name, _shared(getattr(torch, name)))
    if os.environ.get("KIT_CHECK_QUIET") == "1":
        _without_noise(torch)


def _shared(function):
    """Wrap a random function. Draws outside of models, such as latent codes, are kept.

    In a replay, return the draws of the ranks instead.
    """

    @functools.wraps(function)
    def drawn(*args, **kwargs):
        result = function(*args, **kwargs)
        with recorder.guarded():
            if state.current is None or state.depth or not result.dim() or not recorder.is_here or not recorder.place():
                return result
            if _keeps():
                _kept["drawn"].append(_copied(result))
            elif _ranks and len(_given.setdefault("drawn", [])) < min(len(rank["drawn"]) for rank in _ranks):
                at = len(_given["drawn"])
                joined = _joined([rank["drawn"][at] for rank in (_ranks[::-1] if _reversed else _ranks)])
                if joined.shape == result.shape:
                    _given["drawn"].append(at)
                    return joined.to(result)
        return result

    return drawn


def _without_noise(torch):
    functional = torch.nn.functional
    for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
        if hasattr(functional, name):
            setattr(functional, name, lambda input, *args, **kwargs: input)
    torch.dropout = lambda input, *args, **kwargs: input
    attention = functional.scaled_dot_product_attention

    def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, *args, **kwargs):
        return attention(query, key, value, attn_mask, 0.0, *args, **kwargs)

    functional.scaled_dot_product_attention = scaled_dot_product_attention
    for name, value in (("randn_like", 0.0), ("rand_like", 0.5), ("normal", 0.0)):
        setattr(torch, name, _while_training(getattr(torch, name), value))


def _while_training(function, value):
    def drawn(first, *args, **kwargs):
        import torch

        if state.depth and isinstance(first, torch.Tensor):
            return torch.full_like(first, value)
        return function(first, *args, **kwargs)

    return drawn


def _mapped(value, change):
    if hasattr(value, "detach"):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(part, change) for part in value))
    if isinstance(value, (list, tuple)):
        return type(value)(
            _mapped(part, change) for part in (value if sample_rows.tensors_in(value) else change(value))
        )
    if hasattr(value, "items") and hasattr(value, "keys"):
        return {key: _mapped(part, change) for key, part in value.items()}
    return value


def _copied(value):

    def copy(part):
        global _bytes
        if not hasattr(part, "detach"):
            return part
        _bytes += part.numel() * part.element_size()
        return part.detach().cpu().clone()

    return _mapped(value, copy)


def _keeps():
    is_early = not _saved and state.steps < state.kept and _bytes < _MOST_BYTES
    return is_early and not state.is_sharded and recorder.mode != "replay"


def keep_weights():
    """Keep rank 0's weights before the first step."""
    if _keeps() and recorder.rank == 0:
        _kept["weights"] = [_copied(parameter) for parameter in state.parameters()]


def keep_step(kept):
    """Keep the gradients of a step. In a replay, compare them with the ranks' gradients instead."""
    if recorder.mode == "replay":
        _compare(kept)
    elif _keeps():
        _kept["steps"].append(kept)


def rates(step):
    """Return the ranks' learning rates at a step. Returns None if their first gradient differs from this process's."""
    alike = _given.get("alike") and all(step < len(rank["steps"]) for rank in _ranks)
    return _ranks[0]["steps"][step]["rates"] if alike else None


def begin(key):
    """Start keeping the batches of a new pass over a loader."""
    _passes.setdefault(key, []).append([])


def keep_batch(key, batch, index):
    """Keep a batch of the latest pass over a loader."""
    if _keeps():
        _passes[key][-1].append(_Batch(_copied(batch), index))


class _Batch:
    """A batch with its indices, its number of forward passes, and the rows that these passes used."""

    def __init__(self, batch, index):
        self.given, self.uses, self.rows = (batch, index), 0, set()


def use_rows(key, places):
    """Record the used rows of a loader's last batch, since some programs select a rank's rows from each batch."""
    for batch in _passes[key][-1][-1:]:
        batch.rows.update(places)


def use_batches():
    """Count a forward pass on each loader's last batch. The counts show which batches a rank leaves to others."""
    for passes in _passes.values():
        for batch in passes[-1][-1:]:
            batch.uses += 1


def _taken(batches):
    """Return the used batches of a pass. Returns all if they were fetched ahead, since their uses are then unknown."""
    used = [batch for batch in batches if batch.uses]
    skips = 1 < len(used) < len(batches) - 1 and all(batch.uses < 2 for batch in used)
    return [
        _cut(*batch.given, sorted(batch.rows)) if batch.rows else batch.given for batch in (used if skips else batches)
    ]


def _cut(batch, index, places):
    number = sample_rows.rows_of(sample_rows.tensors_in(batch))

    def cut(part):
        if hasattr(part, "dim"):
            return part[places] if part.dim() and len(part) == number else part
        return [part[at] for at in places] if len(part) == number else part

    return _mapped(batch, cut), cut(index) if isinstance(index, list) else index


def keep_arguments(args, kwargs):
    """Keep model inputs that came from no loader."""
    if _keeps():
        _kept["arguments"].append(_copied((args, kwargs)))


def keep_target(target):
    """Keep a loss target that came from no loader."""
    if _keeps():
        _kept["targets"].append(_copied(target))


def save():
    """Write the kept data to a file, once."""
    global _saved
    if _saved or not _kept["steps"]:
        return
    _saved = True
    import torch

    kept = {
        **_kept,
        "after": [sample_rows.sampled(parameter) for parameter in state.parameters()],
        "batches": {
            key: given for key in _passes if (given := [_taken(batches) for batches in _passes[key] if batches])
        },
    }
    torch.save(kept, os.path.join(recorder.folder, f"kept-{recorder.rank}.pt"))


def path():
    """Record the distance between this process's weights and rank 0's after the kept steps.

    It is relative to the distance that rank 0's weights moved.
    """
    import torch

    if recorder.mode != "replay" or not _loaded or not _ranks or not _ranks[0]["after"]:
        return
    ours = torch.cat([sample_rows.sampled(parameter) for parameter in state.parameters()])
    theirs = torch.cat(_ranks[0]["after"])
    start = torch.cat([sample_rows.sampled(weight) for weight in _ranks[0]["weights"]])
    way = float((theirs - start).norm())
    if ours.shape == theirs.shape and way:
        steps = min(len(rank["steps"]) for rank in _ranks)
        recorder.emit("path", relative=float((ours - theirs).norm()) / way, steps=steps)


def is_gradient(tensor):
    """Return whether a tensor shares memory with a parameter's gradient.

    Returns None if unknown, or after the kept steps.
    """
    if tensor is None or state.steps >= state.kept:
        return None
    try:
        start, end = tensor.data_ptr(), tensor.data_ptr() + tensor.numel() * tensor.element_size()
        return any(p.grad is not None and start <= p.grad.data_ptr() < max(end, start + 1) for p in state.parameters())
    except (RuntimeError, AttributeError):
        return None


def load_weights(torch):
    """On the first call, set the weights to those that rank 0 had before its first step."""
    global _loaded
    if _loaded or not _ranks:
        return
    _loaded = True
    parameters, kept = state.parameters(), _ranks[0]["weights"]
    if len(parameters) != len(kept) or any(p.shape != k.shape for p, k in zip(parameters, kept)):
        recorder.emit("replay", fault="the model of one process has other parameters")
        return
    with torch.no_grad():
        for parameter, value in zip(parameters, kept):
            parameter.copy_(value)


def batches(key):
    """Return the ranks' next pass over a loader: lists of batches to join. Returns None if a rank kept no pass."""
    if not _ranks or any(key not in rank["batches"] for rank in _ranks):
        return None
    number = _given.get(key, 0)
    _given[key] = number + 1
    if any(number >= len(rank["batches"][key]) for rank in _ranks):
        return []
    found = [list(parts) for parts in zip(*(rank["batches"][key][number] for rank in _ranks))]
    if _sequential:
        return [[part] for parts in found for part in (reversed(parts) if _reversed else parts)]
    return [list(reversed(parts)) if _reversed else parts for parts in found]


def joined(parts, loader):
    """Join several batches into one."""
    if len(parts) == 1:
        return parts[0][0]
    try:
        return _joined([batch for batch, _ in parts])
    except (RuntimeError, TypeError, ValueError) as error:
        indices = [index for _, index in parts]
        if loader.collate_fn is not None and all(isinstance(index, list) and None not in index for index in indices):
            return loader.collate_fn([loader.dataset[at] for index in indices for at in index])
        recorder.emit("replay", fault=f"the batches of the ranks cannot be joined: {error}"[:200])
        return parts[0][0]


def _joined(values):
    import torch

    first = values[0]
    if isinstance(first, torch.Tensor):
        return torch.cat(values) if first.dim() else first
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*map(_joined, zip(*values)))
    if isinstance(first, (list, tuple)):
        if first and not sample_rows.tensors_in(first):
            return type(first)(part for value in values for part in value)
        return type(first)(_joined(list(parts)) for parts in zip(*values))
    if isinstance(first, dict):
        return {key: _joined([value[key] for value in values]) for key in first}
    return first


def _parts(kind):
    """Return the ranks' next `arguments` or `targets`.

    Returns None if a loader delivers them, or if a rank kept no more.
    """
    if state.current is not None or not _ranks or not _ranks[0][kind]:
        return None
    number = _given.get(kind, 0)
    _given[kind] = number + 1
    order = _ranks[::-1] if _reversed else _ranks
    if _sequential:
        order, number = [order[number % len(order)]], number // len(order)
    if any(number >= len(rank[kind]) for rank in order):
        return None
    return [rank[kind][number] for rank in order]


def arguments(args, kwargs):
    """Replace a model's inputs by the joined inputs of all ranks, unless a loader delivers the inputs."""
    parts = _parts("arguments")
    joined = (args, kwargs) if parts is None else _joined(parts)
    # If the joined rows are the program's own, keep the program's order, which its targets share.
    _given["own"] = parts is None or _rows(joined) == _rows((args, kwargs))
    return (args, kwargs) if _given["own"] else joined


def target(input, target):
    """Replace a loss's target by the joined targets of all ranks, unless a loader delivers the target."""
    parts = _parts("targets")
    return target if parts is None or _given.get("own") else _joined(parts)


def _rows(value):
    tensors = sample_rows.tensors_in(value)
    return sorted(sample_rows.hashes(tensors, sample_rows.rows_of(tensors)))


def _flat(parts, keys):
    import torch

    return torch.cat([parts[key] for key in keys]) if keys else torch.zeros(0, dtype=torch.float64)


def _compare(kept):
    import torch

    number = state.steps
    if any(number >= len(rank["steps"]) for rank in _ranks):
        return
    theirs = [rank["steps"][number] for rank in _ranks]
    keys = sorted(set(kept["used"]) & set(theirs[0]["used"]))
    used, ours = _flat(theirs[0]["used"], keys), _flat(kept["used"], keys)
    if used.shape != ours.shape or not len(ours):
        recorder.emit("replay", fault="the gradients have other shapes")
        return
    size, length = float(ours.norm()), float(used.norm())
    fields = {
        "relative": float((used - ours).norm()) / size if size else None,
        "cosine": float(used @ ours) / (size * length) if size and length else None,
        "scale": float(used @ ours) / size**2 if size else None,
    }
    shared = [key for key in keys if key in kept["local"] and all(key in rank["local"] for rank in theirs)]
    if shared:
        locals_ = torch.stack([_flat(rank["local"], shared) for rank in theirs])
        fields["weights"], fields["rest"] = _weights_of(torch, locals_, _flat(kept["local"], shared))
        fields["used_weights"], _ = _weights_of(torch, locals_, _flat(theirs[0]["used"], shared))
    recorder.emit("compared", step=number, **fields)
    if not number:
        _given["alike"] = size and fields["relative"] < _ALIKE
        torch.save(ours, os.path.join(recorder.folder, "first.pt"))
        other = os.path.join(os.path.dirname(recorder.folder), "order" if not _reversed else "replay", "first.pt")
        if os.path.exists(other):
            recorder.emit("order", relative=float((torch.load(other) - ours).norm()) / size if size else None)
    if number + 1 >= min(state.kept, *(len(rank["steps"]) for rank in _ranks)):
        state.steps = state.kept


def _weights_of(torch, parts, whole):
    found = torch.linalg.lstsq(parts.T, whole.unsqueeze(1), driver="gelsd").solution.squeeze(1)
    size = float(whole.norm())
    return found.tolist(), float((found @ parts - whole).norm()) / size if size else None
