"""The targets by name, each a class that satisfies `base.Target`, imported on use."""

import importlib
from dataclasses import fields
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from runner.core.errors import RequestError, did_you_mean
from runner.targets.base import Target, is_required, type_name

TARGETS = {
    "compose": "runner.targets.compose.target:Compose",
    "kubernetes": "runner.targets.kubernetes.target:Kubernetes",
    "local": "runner.targets.local:Local",
    "replay": "runner.targets.replay:Replay",
    "slurm": "runner.targets.slurm.target:Slurm",
    "ssh": "runner.targets.ssh.target:Ssh",
}


def find(name: str) -> type[Target[Any]]:
    """Import the class of a target; RequestError for a name that is none."""
    if name not in TARGETS:
        raise RequestError(f"no target '{name}'{did_you_mean(name, TARGETS)}")
    module, _, attribute = TARGETS[name].partition(":")
    return cast("type[Target[Any]]", getattr(importlib.import_module(module), attribute))


def load(name: str, words: list[str] | None = None) -> Target[Any]:
    """Make a target with its options, given as `name=value` words."""
    target = find(name)
    return target(_read_options(target, words or []))


def _read_options(target: type[Target[Any]], words: list[str]) -> Any:
    """Read `name=value` words into the target's `Options`, each value by its type.

    Raises RequestError for an option that the target does not have, and names another one that has it, or for a value
    that does not fit.
    """
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
            have = f"targets {' and '.join(having)} have it" if len(having) > 1 else f"target {''.join(having)} has it"
            meant = f"; {have}" if having else did_you_mean(name, known)
            raise RequestError(f"--with {word}: target {target.name} has no option '{name}'{meant or '; it has none'}")
        if name in values:
            raise RequestError(f"--with {word}: '{name}' is given twice")
        values[name] = _value(word, text, types[name])
    if lacking := [option.name for option in known.values() if is_required(option) and option.name not in values]:
        help_text = known[lacking[0]].metadata["help"]
        raise RequestError(f"target {target.name} needs --with {lacking[0]}=...: {help_text}")
    return target.Options(**values)


def _value(word: str, text: str, kind: Any) -> Any:
    if get_origin(kind) is Literal:
        if text in get_args(kind):
            return text
        raise RequestError(f"--with {word}: '{text}' is unknown{did_you_mean(text, get_args(kind))}")
    if not text.isprintable() or not text:
        raise RequestError(f"--with {word!r}: the value has to be printable text")
    try:
        if kind is bool:
            return {"true": True, "false": False}[text]
        return kind(text)
    except (ValueError, KeyError):
        raise RequestError(f"--with {word}: '{text}' has to be a {type_name(kind)}") from None
