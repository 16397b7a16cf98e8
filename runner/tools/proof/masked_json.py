"""JSON of a run's folder with what is private masked: folders everywhere, names of machines where they are such names.

A machine may have the name of a program, an optimizer or a data set. So its name is masked in the fields that name
machines, and in the texts that processes and clusters wrote; what a run is started with, keys and figures stay.
"""

from __future__ import annotations

from typing import Any

import msgspec

from runner.definitions.definition import hash_resolved
from runner.tools.proof.masking import Mask

_NAMING = ("host", "machine")
_TEXTS = (
    *("reason", "doubts", "malformed", "notes", "error", "cause", "last_lines"),
    *("why", "stopped_because", "says", "words", "stack", "env"),
)
"""Keys of a record below which processes, clusters and the runner speak in sentences."""
_HOST_OPTIONS = ("hosts", "nodelist", "exclude")
_STARTED_WITH = ("args", "definition")


def mask_json(data: bytes, mask: Mask) -> bytes:
    """Mask a record, a launch, or what was seen of its end; what is no JSON is masked as a text."""
    try:
        before = msgspec.json.decode(data)
        after = _mask(before, "", mask)
        return data if after == before else msgspec.json.format(msgspec.json.encode(after), indent=1)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return mask.apply(data)


def _mask(value: Any, key: str, mask: Mask) -> Any:
    if isinstance(value, dict) and {"experiment", "definition", "args"} <= value.keys():
        return _mask_launch(value, mask)
    if isinstance(value, dict):
        inner = key if key in _TEXTS else ""
        return {mask.folders(name): _mask(item, inner or name, mask) for name, item in value.items()}
    if isinstance(value, list):
        return [_mask(item, key, mask) for item in value]
    if not isinstance(value, str):
        return value
    if key in _NAMING:
        return mask.name(value)
    return mask.text(value) if key in _TEXTS else mask.folders(value)


def _mask_launch(launch: dict[str, Any], mask: Mask) -> dict[str, Any]:
    """Mask what was known before the start, and name the args and keys of the definition in which a folder was."""
    masked: dict[str, Any] = _map(launch, mask.folders)
    for part, names in (("host", ("name",)), ("runner", ("host",))):
        if isinstance(launch.get(part), dict):
            masked[part] |= {name: _map(launch[part][name], mask.name) for name in names if name in launch[part]}
    if isinstance(launch.get("options"), dict):
        named = {name: value for name, value in launch["options"].items() if name in _HOST_OPTIONS}
        masked["options"] |= _map(named, mask.text)
    masked["argv"] = _map(launch.get("argv"), mask.text)
    places = [name for part in _STARTED_WITH for name in _differing(launch[part], masked[part], part)]
    if places:
        masked["masked_places"] = [*dict.fromkeys([*(launch.get("masked_places") or []), *places])]
        if hash_resolved(launch["definition"]) == launch.get("definition_sha256"):
            masked["definition_sha256"] = hash_resolved(masked["definition"])
    return masked


def _map(value: Any, change: Any) -> Any:
    """Change every text of a JSON value, and no key."""
    if isinstance(value, dict):
        return {name: _map(item, change) for name, item in value.items()}
    if isinstance(value, list):
        return [_map(item, change) for item in value]
    return change(value) if isinstance(value, str) else value


def _differing(before: Any, after: Any, path: str) -> list[str]:
    """Name the values that are no longer the same, for example `args.data_dir`."""
    if isinstance(before, dict):
        return [name for key, item in before.items() for name in _differing(item, after[key], f"{path}.{key}")]
    return [path] if before != after else []
