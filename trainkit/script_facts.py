"""A script's name, arguments and device, found from within its process."""

import dataclasses
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from trainkit.distributed import Place
from trainkit.sources import FAMILIES

LONGEST_TEXT = 200
MOST_VALUES = 100
"""Maximum values of a list; further values are dropped."""
LARGEST_ARGS = 1_500
"""Maximum bytes of the arguments in `run_start`, whose whole line is limited to 4,096."""
_FAMILIES = f"{FAMILIES}."


def name_of_program() -> tuple[str, bool]:
    """Return the script's name as it was started, and whether it belongs to a family of experiments.

    For `python train.py` and torchrun the name is a path, relative if below the current folder; for `-m`, a module.
    """
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        name = str(spec.name).removesuffix(".__main__")
        return name.removeprefix(_FAMILIES), name.startswith(_FAMILIES) and name.count(".") > 1
    file = getattr(main, "__file__", None) or sys.argv[0]
    if not file or file.startswith("-"):
        return "python", False
    path = Path(file).resolve()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else path.name, False


def choose_device(device: str | torch.device | None, place: Place) -> torch.device:
    """Return the named device, the GPU that the script has set, the GPU of the local rank, or the CPU.

    Processes share GPUs if there are too few. A script that sets the first GPU looks as if it had set none.
    """
    if device is not None and torch.device(device).index is not None:
        return torch.device(device)
    kind = torch.device(device).type if device is not None else "cuda" if torch.cuda.is_available() else "cpu"
    seen = torch.cuda.device_count() if kind == "cuda" else 0
    if not seen:
        return torch.device(kind)
    chosen = torch.cuda.current_device() if torch.cuda.is_initialized() else 0
    return torch.device("cuda", chosen or place.local_rank % seen)


def plain_args(args: object) -> dict[str, Any]:
    """Return a script's arguments in JSON's types, with long texts and long lists cut.

    Args:
        args: a Namespace or other object with attributes, a mapping, or a dataclass; None for the command line.
    """
    if args is None:
        named: dict[str, Any] = {"argv": sys.argv[1:]}
    elif isinstance(args, Mapping):
        named = {str(name): value for name, value in args.items()}
    elif dataclasses.is_dataclass(args) and not isinstance(args, type):
        named = {field.name: getattr(args, field.name, None) for field in dataclasses.fields(args)}
    elif hasattr(args, "__dict__"):
        named = {name: value for name, value in vars(args).items() if not name.startswith("_")}
    else:
        raise TypeError(f"args has to be a Namespace, a mapping or a dataclass, not {type(args).__name__}")
    kept: dict[str, Any] = {}
    room = LARGEST_ARGS
    for name, value in named.items():
        plain = _plain(value)
        room -= len(json.dumps({name: plain}).encode())
        if room < 0:
            return {**kept, "left_out": len(named) - len(kept)}
        kept[name] = plain
    return kept


def _plain(value: object, depth: int = 3) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple) and depth:
        return [_plain(item, depth - 1) for item in value[:MOST_VALUES]]
    if isinstance(value, Mapping) and depth:
        return {str(name): _plain(item, depth - 1) for name, item in value.items()}
    text = str(value)
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."
