"""Look up targets by name and create them with their options."""

import importlib
from dataclasses import fields
from typing import Any, cast, get_type_hints

import msgspec

from runner.core.errors import RequestError, did_you_mean
from runner.targets.base import Target, type_name

TARGETS = {
    "compose": "runner.targets.compose.target:Compose",
    "kubernetes": "runner.targets.kubernetes.target:Kubernetes",
    "local": "runner.targets.local:Local",
    "slurm": "runner.targets.slurm.target:Slurm",
    "ssh": "runner.targets.ssh.target:Ssh",
}


def find(name: str) -> type[Target[Any]]:
    """Import and return a target's class. Raises RequestError if the name is unknown."""
    if name not in TARGETS:
        raise RequestError(f"unknown target '{name}'{did_you_mean(name, TARGETS)}")
    module, _, attribute = TARGETS[name].partition(":")
    return cast("type[Target[Any]]", getattr(importlib.import_module(module), attribute))


def load(name: str, words: list[str] | None = None) -> Target[Any]:
    """Create a target from `name=value` options. Raises RequestError if an option is unknown or invalid."""
    target = find(name)
    return target(_read_options(target, words or []))


def _read_options(target: type[Target[Any]], words: list[str]) -> Any:
    known = {option.name: option for option in fields(target.Options)}
    types = get_type_hints(target.Options)
    values: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        name = name.replace("-", "_")
        if not equals:
            raise RequestError(f"--with {word}: write name=value; `runner targets {target.name}` lists the options")
        if name not in known:
            having = [other for other in TARGETS if name in {option.name for option in fields(find(other).Options)}]
            meant = f"; it is an option of {' and '.join(having)}" if having else did_you_mean(name, known)
            raise RequestError(f"--with {word}: target {target.name} has no option '{name}'{meant}")
        if name in values:
            raise RequestError(f"--with {word}: '{name}' is given twice")
        try:
            values[name] = msgspec.convert(text, types[name], strict=False)
        except msgspec.ValidationError:
            raise RequestError(f"--with {word}: expected {type_name(types[name])}, not '{text}'") from None
    return target.Options(**values)
