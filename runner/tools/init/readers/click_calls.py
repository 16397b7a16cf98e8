"""click: `@click.option(...)` and `@click.argument(...)`, wherever they stand; also rich_click and cloup."""

import ast
import re

from runner.definitions.options.argparse_calls import SPELLING, add
from runner.definitions.options.option import LISTED, REPEATED, Interface, Option
from runner.definitions.options.sources import Code, Source, keywords, last, literal, literals, texts
from runner.tools.init.readers.fields import annotation, kind_of

_MODULES = ("click", "rich_click", "asyncclick", "cloup")
_DECLARES = ("option", "argument", "command", "group")
MARKS = frozenset(f"{module}.{name}" for module in _MODULES for name in _DECLARES)
_KINDS = {"int": "int", "INT": "int", "float": "float", "FLOAT": "float", "bool": "bool", "BOOL": "bool"}
_RANGES = {"IntRange": "int", "FloatRange": "float"}
_TAKE_MORE = ("ignore_unknown_options", "allow_extra_args")


def read(code: Code) -> Interface:
    """Collect the options and arguments of all commands; those of a group's commands stand behind their name."""
    options: dict[str, Option] = {}
    names, of_groups, of_commands = _commands(code)
    is_open = False
    for source, call in code.every_call():
        given = keywords(call)
        settings = given.get("context_settings")
        is_open |= any(literal(given.get(name)) is True for name in _TAKE_MORE)
        is_open |= isinstance(settings, ast.Dict) and any(literal(key) in _TAKE_MORE for key in settings.keys)
        what = _what(source, call)
        if what in ("option", "argument"):
            is_open |= not _spelling(call)
            option = _option(code, call, is_argument=what == "argument")
            if of_groups and option and id(call) not in of_groups:
                option = option._replace(depth=2, commands=of_commands.get(id(call), ()))
            add(options, option)
    if of_groups:
        options = {"command": Option("command", "value", tuple(names), required=True, depth=1), **options}
    return Interface("click", options, is_open)


def _what(source: Source, call: ast.Call) -> str:
    """Return `option`, `argument`, `command` or `group` if a call is one of click's."""
    module, _, name = source.origin(call.func).partition(".")
    return name.rpartition(".")[2] if module in _MODULES and name.rpartition(".")[2] in _DECLARES else ""


def _commands(code: Code) -> tuple[list[str], set[int], dict[int, tuple[str]]]:
    """Return the commands of groups, the ids of the calls that declare groups, and those of a command with its name.

    A group is a function under `@click.group()`, its commands those under `@<group>.command()`.
    """
    groups: set[str] = set()
    names: list[str] = []
    of_groups: set[int] = set()
    of_commands: dict[int, tuple[str]] = {}
    for source in code.sources:
        for function in source.part.functions.values():
            marks = {source.origin(getattr(node, "func", node)) for node in function.decorator_list}
            if marks & {f"{module}.group" for module in _MODULES}:
                groups.add(function.name)
                of_groups.update(map(id, function.decorator_list))
    for function in code.functions.values():
        for node in function.decorator_list:
            func = node.func if isinstance(node, ast.Call) else node
            if isinstance(func, ast.Attribute) and func.attr == "command" and last(func.value) in groups:
                given = (texts(node.args) if isinstance(node, ast.Call) else [])[:1]
                names += given or [re.sub(r"-(command|cmd|group|grp)$", "", function.name.lower().replace("_", "-"))]
                of_commands.update(dict.fromkeys(map(id, function.decorator_list), (names[-1],)))
    return names, of_groups, of_commands


def _spelling(call: ast.Call) -> str:
    words = texts(call.args)
    long = [word for word in words if word.startswith("--")]
    spelling = (long or [word for word in words if word.startswith("-")] or words or [""])[0].partition("/")[0].strip()
    return spelling if SPELLING.fullmatch(spelling) else ""


def _option(code: Code, call: ast.Call, *, is_argument: bool) -> Option | None:
    spelling, given = _spelling(call), keywords(call)
    if not spelling or spelling.startswith("-") is is_argument:
        return None
    default, nargs = literal(given.get("default")), given.get("nargs")
    kind, choices, least = _type(code, given.get("type"), default)
    many = LISTED if nargs is not None and literal(nargs) != 1 else ""
    required = literal(given.get("required"))
    if is_argument:
        is_required = "default" not in given and literal(nargs) != -1 if required is None else bool(required)
        return Option(spelling.lower(), "value" if many else kind, choices, least, is_required, default, many=many)
    pairs = [word.partition("/") for word in texts(call.args) if "/" in word]
    off = next((no.strip() for yes, _, no in pairs if yes.strip() == spelling), "")
    is_flag = "flag_value" in given or any(literal(given.get(name)) is True for name in ("is_flag", "count"))
    many = REPEATED if literal(given.get("multiple")) is True else many
    kind = "switch" if off else "flag" if is_flag else "value" if many else kind
    is_required = required is True or (literal(given.get("prompt")) is True and "default" not in given)
    return Option(spelling, kind, choices, least, is_required, default, off if kind == "switch" else "", many)


def _type(code: Code, node: ast.expr | None, default: object) -> tuple[str, tuple[object, ...], int | None]:
    """Return the kind, the choices and the lower bound of a type; without one, click takes that of the default."""
    if node is None:
        is_whole = isinstance(default, int) and not isinstance(default, bool)
        return "int" if is_whole else kind_of(default), (), None
    if not isinstance(node, ast.Call):
        return _KINDS.get(last(node), "value"), (), None
    name, first = last(node.func), node.args[0] if node.args else None
    if name == "Choice" and first is not None:
        return "value", literals(first) or annotation(code, first).names, None
    least = literal(keywords(node).get("min", first)) if name == "IntRange" else None
    return _RANGES.get(name, "value"), (), least if isinstance(least, int) else None
