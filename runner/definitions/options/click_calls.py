"""click: `@click.option(...)` and `@click.argument(...)`, wherever they stand; also rich_click and cloup."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from runner.definitions.options.argparse_calls import SPELLING, add
from runner.definitions.options.literals import annotation, is_true, keywords, kind_of, literal, literals, texts
from runner.definitions.options.option import LISTED, REPEATED, Interface, Option
from runner.definitions.options.sources import Code, Source, last

_MODULES = ("click", "rich_click", "asyncclick", "cloup")
_DECLARES = ("option", "argument", "command", "group")
_KINDS = {"int": "int", "INT": "int", "float": "float", "FLOAT": "float", "bool": "bool", "BOOL": "bool"}
_RANGES = {"IntRange": "int", "FloatRange": "float"}
_TAKE_MORE = ("ignore_unknown_options", "allow_extra_args")


class _Commands(NamedTuple):
    """The commands of groups, and the ids of the calls that declare what a group takes, or one command."""

    names: tuple[str, ...]
    of_groups: set[int]
    of_commands: dict[int, str]


def marks(code: Code, source: Source) -> bool:
    """Whether a file declares a command or its arguments with click."""
    return any(_what(source, call) for call in code.calls(source))


def read(code: Code) -> Interface:
    """Collect the options and arguments of all commands; those of a group's commands stand behind their name."""
    options: dict[str, Option] = {}
    commands = _commands(code)
    for source, call in code.every_call():
        what = _what(source, call)
        option = _option(code, call) if what == "option" else _argument(call) if what == "argument" else None
        add(options, _placed(option, id(call), commands) if commands and option else option)
    if commands:
        options = {"command": Option("command", "value", commands.names, required=True, depth=1), **options}
    is_open = any(is_true(word.value) for _, call in code.every_call() for word in call.keywords if _takes_more(word))
    settings = (node for source, call in code.every_call() for node in call.keywords if node.arg == "context_settings")
    is_open |= any(literal(key) in _TAKE_MORE for node in settings for key in _keys(node.value))
    declares = ((call, _what(source, call)) for source, call in code.every_call())
    is_open |= any(what in ("option", "argument") and not _spelling(call) for call, what in declares)
    return Interface("click", options, is_open)


def _placed(option: Option, call: int, commands: _Commands) -> Option:
    """Say of an option whether it stands before or behind the command, and which command takes it."""
    if call in commands.of_groups:
        return option
    return option._replace(depth=2, commands=(commands.of_commands[call],) if call in commands.of_commands else ())


def _takes_more(word: ast.keyword) -> bool:
    return word.arg in _TAKE_MORE


def _keys(node: ast.expr) -> list[ast.expr]:
    return [key for key in node.keys if key] if isinstance(node, ast.Dict) else []


def _what(source: Source, call: ast.Call) -> str:
    """Return `option`, `argument`, `command` or `group` if a call is one of click's."""
    module, _, name = source.origin(call.func).partition(".")
    return name.rpartition(".")[2] if module in _MODULES and name.rpartition(".")[2] in _DECLARES else ""


def _commands(code: Code) -> _Commands | None:
    """Find the commands of groups; None for a program without any group.

    A group is a function under `@click.group()`, its commands those under `@<group>.command()`.
    """
    groups: set[str] = set()
    names: list[str] = []
    of_groups: set[int] = set()
    of_commands: dict[int, str] = {}
    for source in code.sources:
        for function in source.part.functions.values():
            calls = [one for one in function.decorator_list if isinstance(one, ast.Call)]
            bare = {source.origin(one) for one in function.decorator_list}
            if any(_what(source, call) == "group" for call in calls) or bare & {f"{one}.group" for one in _MODULES}:
                groups.add(function.name)
                of_groups.update(map(id, calls))
    for function in code.functions.values():
        for one in function.decorator_list:
            func = one.func if isinstance(one, ast.Call) else one
            if isinstance(func, ast.Attribute) and func.attr == "command" and last(func.value) in groups:
                given = (texts(one.args) if isinstance(one, ast.Call) else [])[:1]
                names += given or [re.sub(r"-(command|cmd|group|grp)$", "", function.name.lower().replace("_", "-"))]
                of_commands.update(dict.fromkeys(map(id, function.decorator_list), names[-1]))
    return _Commands(tuple(names), of_groups, of_commands) if groups else None


def _spelling(call: ast.Call) -> str:
    words = texts(call.args)
    long = [word for word in words if word.startswith("--")]
    spelling = (long or [word for word in words if word.startswith("-")] or words or [""])[0].partition("/")[0].strip()
    return spelling if SPELLING.fullmatch(spelling) else ""


def _option(code: Code, call: ast.Call) -> Option | None:
    spelling, given = _spelling(call), keywords(call)
    if not spelling.startswith("-"):
        return None
    pairs = [word.partition("/") for word in texts(call.args) if "/" in word]
    off = next((no.strip() for yes, _, no in pairs if yes.strip() == spelling), "")
    default = literal(given.get("default"))
    is_flag = is_true(given.get("is_flag")) or is_true(given.get("count")) or "flag_value" in given
    many = REPEATED if is_true(given.get("multiple")) else _several(given.get("nargs"))
    kind, choices, least = _type(code, given.get("type"), default)
    kind = "switch" if off else "flag" if is_flag else "value" if many else kind
    required = is_true(given.get("required")) or (is_true(given.get("prompt")) and "default" not in given)
    return Option(spelling, kind, choices, least, required, default, off if kind == "switch" else "", many)


def _argument(call: ast.Call) -> Option | None:
    spelling, given = _spelling(call), keywords(call)
    if not spelling or spelling.startswith("-"):
        return None
    default = literal(given.get("default"))
    many = _several(given.get("nargs"))
    kind, choices, least = _type(None, given.get("type"), default)
    required = literal(given.get("required"))
    is_required = "default" not in given and literal(given.get("nargs")) != -1 if required is None else bool(required)
    return Option(spelling.lower(), "value" if many else kind, choices, least, is_required, default, many=many)


def _several(nargs: ast.expr | None) -> str:
    return LISTED if nargs is not None and literal(nargs) != 1 else ""


def _type(code: Code | None, node: ast.expr | None, default: object) -> tuple[str, tuple[object, ...], int | None]:
    """Return the kind, the choices and the lower bound of a type; without one, click takes that of the default."""
    if node is None:
        is_whole = isinstance(default, int) and not isinstance(default, bool)
        return "int" if is_whole else kind_of(default), (), None
    if not isinstance(node, ast.Call):
        return _KINDS.get(last(node), "value"), (), None
    name, first = last(node.func), node.args[0] if node.args else None
    if name == "Choice" and first is not None:
        by_class = annotation(code, first, by_name=True).choices if code is not None else ()
        return "value", literals(first) or by_class, None
    least = literal(keywords(node).get("min", first)) if name == "IntRange" else None
    return _RANGES.get(name, "value"), (), least if isinstance(least, int) else None
