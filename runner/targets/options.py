"""The options of a target: `--with name=value` words -> its frozen dataclass, each value checked by its type."""

from dataclasses import MISSING, Field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from runner.core.errors import RequestError, did_you_mean
from runner.targets.base import Target


def read_options(target: type[Target[Any]], words: list[str], others: dict[str, list[str]]) -> Any:
    """Read `name=value` words into the target's `Options`.

    `others` are the names of the options of all targets, to say which target has one that this target lacks. Raises
    RequestError for an option that the target does not have or a value that does not fit.
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
            having = [other for other, names in others.items() if name in names]
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


def is_required(option: Field[Any]) -> bool:
    """Return whether a target cannot do without this option."""
    return option.default is MISSING and option.default_factory is MISSING


def axes_of(options: Any) -> dict[str, str]:
    """Return the kinds of the options that decide how long a run takes, by their names."""
    return {option.name: option.metadata["axis"] for option in fields(options) if "axis" in option.metadata}


def names_of(options: type[Any]) -> dict[str, Any]:
    """Return the options that are any text and no axis, with their defaults: they may name hosts, files and images."""
    types = get_type_hints(options)
    texts = [option for option in fields(options) if types[option.name] is str]
    return {option.name: option.default for option in texts if "axis" not in option.metadata}


def type_name(kind: Any) -> str:
    """Name the type of an option, for example `text` or `pytorchjob|indexed`."""
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    return {str: "text", int: "whole number", float: "number", bool: "true|false"}[kind]


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
