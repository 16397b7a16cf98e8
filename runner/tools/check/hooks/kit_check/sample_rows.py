"""Identify samples by content: a 64-bit hash for each row of a batch."""

import torch

_PRIME, _MIX = 0x100000001B3, -0x61C8864680B583EB
_MOST_ELEMENTS = 1 << 24
_SAME_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def tensors_in(value, depth=0):
    """Return the tensors of a batch or of arguments, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if depth > 4:
        return []
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in tensors_in(part, depth + 1)]
    if hasattr(value, "items") and hasattr(value, "keys"):
        return [tensor for _, part in value.items() for tensor in tensors_in(part, depth + 1)]
    return []


def rows_of(tensors):
    """Return the number of rows: the first dimension of the first tensor that has one."""
    return next((len(tensor) for tensor in tensors if tensor.dim()), 0)


def _bits(tensor):
    flat = tensor.detach().reshape(len(tensor), -1).contiguous()
    if flat.dtype == torch.bool or flat.dtype not in (torch.int64, torch.int32, torch.int16, torch.uint8):
        flat = flat.to(torch.uint8) if flat.dtype == torch.bool else flat.view(_SAME_SIZE[flat.element_size()])
    return flat.to(torch.int64)


def hashes(tensors, rows):
    """Return a hash of each row, over all tensors that have `rows` rows."""
    total = None
    with torch.no_grad():
        for given in tensors:
            if not given.dim() or len(given) != rows or given.is_sparse or not rows:
                continue
            tensor = torch.view_as_real(given) if given.is_complex() else given
            width = tensor[0].numel()
            if not width:
                continue
            places = torch.arange(1, width + 1, dtype=torch.int64, device=tensor.device)
            weights = (places * _MIX) ^ ((places * _PRIME) >> 7) | 1
            step = max(1, _MOST_ELEMENTS // width)
            parts = [(_bits(tensor[at : at + step]) * weights).sum(1) for at in range(0, rows, step)]
            sums = torch.cat(parts).cpu()
            total = sums if total is None else total * _PRIME + sums
    return [] if total is None else (total ^ (total >> 29)).tolist()


def found_in(whole, part):
    """Return the places of the hashes `part` in `whole`: a slice, a stride, or single rows. Returns None if unsure."""
    size, stride = len(part), len(whole) // len(part)
    slices = [slice(start, start + size) for start in range(len(whole) - size + 1)]
    slices += [slice(start, None, stride) for start in range(stride)]
    fits = {tuple(range(len(whole))[each][:size]) for each in slices if whole[each][:size] == part}
    if len(fits) == 1:
        return list(fits.pop())
    places = {number: at for at, number in enumerate(whole)}
    is_unsure = fits or len(places) < len(whole) or not all(number in places for number in part)
    return None if is_unsure else [places[number] for number in part]


def fingerprint(tensors):
    """Return one hash for tensors of any shapes."""
    total = 0
    with torch.no_grad():
        for given in tensors:
            tensor = given.to_dense() if given.is_sparse else given
            tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
            if tensor.numel():
                total = (total * 1000003 + hashes([tensor.detach().reshape(1, -1)], 1)[0]) & 0xFFFFFFFFFFFFFFFF
    return total


def sampled(tensor):
    """Return at most 4096 elements of a tensor, always at the same positions."""
    flat = (tensor.to_dense() if tensor.is_sparse else tensor).detach().reshape(-1)
    step = max(1, flat.numel() // 4096)
    return flat[::step][:4096].to("cpu", torch.float64, copy=True)
