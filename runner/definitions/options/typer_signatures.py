"""typer: the signatures of the functions that are commands."""

from __future__ import annotations

import ast
from typing import NamedTuple

from runner.definitions.options.argparse_calls import SPELLING, add
from runner.definitions.options.fields import Field, fields_of_function
from runner.definitions.options.literals import Annotation, annotation, keywords, literal, texts
from runner.definitions.options.option import LISTED, REPEATED, Interface, Option
from runner.definitions.options.sources import Code, Function, last

MARKS = frozenset({"typer.Typer", "typer.run"})
_CONTEXTS = ("Context", "CallbackParam")


class _Command(NamedTuple):
    name: str
    function: Function
    is_open: bool


def read(code: Code) -> Interface:
    """Read the parameters of the commands; of several, those stand behind the command's name."""
    commands, callback = _commands(code)
    several = len(commands) > 1 or callback is not None
    options: dict[str, Option] = {}
    if callback is not None:
        for option in _options(code, callback):
            add(options, option)
    if several:
        names = tuple(command.name for command in commands)
        options["command"] = Option("command", "value", names, required=True, depth=1)
    for command in commands:
        for option in _options(code, command.function):
            add(options, option._replace(depth=2, commands=(command.name,)) if several else option)
    is_open = not commands or any(command.is_open for command in commands) or _adds_others(code)
    return Interface("typer", options, is_open)


def _adds_others(code: Code) -> bool:
    return any(last(call.func) == "add_typer" for _, call in code.every_call())


def _commands(code: Code) -> tuple[list[_Command], Function | None]:
    """Find the functions that are commands, and the callback of the application if it has parameters or a group."""
    commands, callback = [], None
    for source, call in code.every_call():
        if source.origin(call.func) == "typer.run" and call.args and (found := code.function(last(call.args[0]))):
            commands.append(_Command(found.name, found, is_open=False))
    apps = {name for name, value in code.values.items() if isinstance(value, ast.Call) and last(value.func) == "Typer"}
    for function in code.functions.values():
        for node in function.decorator_list:
            func = node.func if isinstance(node, ast.Call) else node
            if not isinstance(func, ast.Attribute) or last(func.value) not in apps:
                continue
            if func.attr == "command":
                given = texts(node.args)[:1] if isinstance(node, ast.Call) else []
                settings = keywords(node).get("context_settings") if isinstance(node, ast.Call) else None
                name = (given or [function.name.lower().replace("_", "-")])[0]
                commands.append(_Command(name, function, is_open=settings is not None))
            elif func.attr == "callback":
                callback = function
    return commands, callback


def _options(code: Code, function: Function) -> list[Option]:
    found = [_option(code, field) for field in fields_of_function(function).fields]
    return [option for option in found if option is not None]


def _option(code: Code, field: Field) -> Option | None:
    """Read `lr: float = 0.1`, `= typer.Option(0.1, "--lr")`, or `Annotated[float, typer.Option("--lr")] = 0.1`."""
    if field.type is not None and last(field.type) in _CONTEXTS:
        return None
    said = annotation(code, field.type)
    info, default = _info(field)
    given = keywords(info) if info is not None else {}
    is_argument = last(info.func) == "Argument" if info is not None else field.default is None
    value = literal(default)
    least = literal(given.get("min"))
    choices = said.choices if not said.many else ()
    kind = "value" if said.many else said.kind
    if field.type is None and default is not None:
        kind = "bool" if isinstance(value, bool) else "value"
    found = Option(
        field.name,
        kind,
        choices,
        least if isinstance(least, int) and kind == "int" else None,
        required=default is None or (isinstance(default, ast.Constant) and default.value is Ellipsis),
        default=value,
        many=said.many,
    )
    return found if is_argument else _named(found, field, info, said)


def _named(option: Option, field: Field, info: ast.Call | None, said: Annotation) -> Option | None:
    """Give an option its spelling: that of the source, or the name with hyphens; a boolean also has one that says no.

    Of a type with several values a list is repeated, and a tuple stands behind one spelling.
    """
    written = info.args[1 if info is field.default else 0 :] if info is not None else []
    words = [word for word in texts(written) if word.startswith("-")]
    long = [word for word in words if word.startswith("--")]
    declared = (long or words or [f"--{field.name.lower().replace('_', '-')}"])[0]
    spelling, _, off = (part.strip() for part in declared.partition("/"))
    if not SPELLING.fullmatch(spelling):
        return None
    kind = option.kind
    if kind == "bool":
        kind = "switch" if off or not words else "flag"
    elif info is not None and "count" in keywords(info):
        kind = "flag"
    many = REPEATED if said.many == LISTED and not _is_tuple(field.type) else said.many
    return option._replace(spelling=spelling, kind=kind, off=off, many=many)


def _is_tuple(node: ast.expr | None) -> bool:
    return node is not None and any(last(part).lower() == "tuple" for part in ast.walk(node))


def _info(field: Field) -> tuple[ast.Call | None, ast.expr | None]:
    """Return what `typer.Option(...)` or `typer.Argument(...)` says of a parameter, and its default."""
    if isinstance(field.default, ast.Call) and last(field.default.func) in ("Option", "Argument"):
        info = field.default
        return info, info.args[0] if info.args else keywords(info).get("default", keywords(info).get("default_factory"))
    if isinstance(field.type, ast.Subscript) and last(field.type.value) == "Annotated":
        inner = field.type.slice.elts if isinstance(field.type.slice, ast.Tuple) else []
        calls = [node for node in inner if isinstance(node, ast.Call) and last(node.func) in ("Option", "Argument")]
        factory = next((keywords(call).get("default_factory") for call in calls), None)
        return (calls[0] if calls else None), field.default or factory
    return None, field.default
