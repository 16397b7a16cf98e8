"""argparse: `add_argument` calls, wherever they stand."""

from __future__ import annotations

import ast
import re

from runner.definitions.imports import LIBRARY
from runner.definitions.options.literals import keywords, literal, literals, texts
from runner.definitions.options.option import LISTED, REPEATED, Interface, Option
from runner.definitions.options.sources import Code, Source, dotted, last, part_of
from runner.definitions.options.subparsers import read_commands

_ADD = "add_argument"
_FLAGS = {"store_true": False, "store_false": True, "store_const": None, "append_const": None, "count": None}
_SWITCH = "BooleanOptionalAction"
_NONE = ("help", "version")
"""Actions that end the program."""
_NUMBERS = ("int", "float")
_MOST_COMMANDS = 100
"""Subcommands that share an option; of more none is named."""
_AT_LEAST = "at_least"
"""The type of whole numbers with a lower bound, of `trainkit.arguments`."""
SPELLING = re.compile(r"-{0,2}[^\W_][\w.-]*")
_PARSERS = ("Parser", "ArgParser")
_OWN_PARSERS = {"argparse", "configargparse", "gooey", "jsonargparse", "transformers", "trl", "simple_parsing"}
_ONLY_LOOK = {
    LIBRARY,
    "argcomplete",
    "shtab",
    "print",
    "vars",
    "repr",
    "str",
    "type",
    "isinstance",
    "super",
    "id",
    "hasattr",
}
"""Who is given a parser and declares nothing."""
_ADDS_UNSEEN = {"parse_known_args", "parse_known_intermixed_args", "add_class_arguments", "add_subclass_arguments"}
_ADDS_UNSEEN |= {"add_function_arguments", "add_method_arguments", "add_dataclass_arguments", "_add_action"}


def marks(code: Code, source: Source) -> bool:
    """Whether a file declares arguments for argparse, or hands its command line to it."""
    return any(last(call.func) in (_ADD, "parse_known_args") for call in code.calls(source)) or any(
        last(call.func) == _ADD for call in _library_calls(code, source)
    )


def read(code: Code) -> Interface:
    """Collect `add_argument("--key", ...)` from a program and from what it imports.

    Of the project's own modules every call counts, of the library's those in functions that are called.
    """
    options: dict[str, Option] = {}
    parsers = _parsers(code)
    commands = read_commands(code)
    is_open = False
    for source, call in code.every_call():
        name = last(call.func)
        if name == _ADD:
            option = declared(call)
            is_open |= option is None and not _ends(call)
            add(options, commands.place(source, call, option) if commands and option else option)
        elif name == "set_defaults":
            _set_defaults(options, call)
        elif name in _ADDS_UNSEEN or _is_given_away(code, source, call, parsers):
            is_open = True
    if commands:
        options = {commands.key: Option(commands.key, "value", commands.names, required=True, depth=1), **options}
    for source in code.sources:
        for call in _library_calls(code, source):
            add(options, declared(call) if last(call.func) == _ADD else None)
    return Interface("argparse", options, is_open)


def add(options: dict[str, Option], option: Option | None) -> None:
    """Note an option by its key; of two with one key the first one counts, and of two types neither is checked."""
    if option is None:
        return
    key = option.spelling.lstrip("-").replace("-", "_")
    known = options.setdefault(key, option)
    takes_value = {"int", "float", "value"}
    if known.kind != option.kind and {known.kind, option.kind} <= takes_value:
        options[key] = known._replace(kind="value", choices=(), least=None)
    elif known.choices != option.choices:
        options[key] = known._replace(choices=())
    required = known.required and option.required
    options[key] = options[key]._replace(required=required, commands=_together(known.commands, option.commands))


def _together(known: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    """Join the commands that take an option; without names it may be any of them."""
    both = (*known, *(one for one in more if one not in known)) if known and more else ()
    return both if len(both) <= _MOST_COMMANDS else ()


def declared(call: ast.Call) -> Option | None:
    """Read one `add_argument` call; None for one whose name is computed, or that ends the program."""
    spellings = texts(call.args)
    long = [word for word in spellings if word.startswith("--")]
    spelling = (long or spellings or [""])[0]
    if not SPELLING.fullmatch(spelling) or _ends(call) or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    given = keywords(call)
    action = _action(given.get("action"))
    nargs = literal(given.get("nargs"))
    many = REPEATED if action in ("append", "extend") else LISTED if _is_several(given.get("nargs")) else ""
    kind, least = _type(given.get("type")) if not many else ("value", None)
    kind = "switch" if action == _SWITCH else "flag" if action in _FLAGS else kind
    is_positional = not spelling.startswith("-")
    required = is_positional and nargs not in ("?", "*") and "default" not in given
    return Option(
        spelling,
        kind,
        literals(given.get("choices")),
        least,
        required=required or literal(given.get("required")) is True,
        default=literal(given.get("default")) if "default" in given else _FLAGS.get(action),
        many=many,
        truth=_truth(given.get("type"), kind),
    )


def _ends(call: ast.Call) -> bool:
    return _action(keywords(call).get("action")) in _NONE


def _action(node: ast.expr | None) -> str:
    said = literal(node)
    return said if isinstance(said, str) else last(node) if node else ""


def _is_several(nargs: ast.expr | None) -> bool:
    return nargs is not None and literal(nargs) != "?" and literal(nargs) != 0


def _type(node: ast.expr | None) -> tuple[str, int | None]:
    """Return the kind and the lower bound that an argument's type gives it."""
    if isinstance(node, ast.Call) and last(node.func) == _AT_LEAST:
        bound = literal(node.args[0]) if node.args else None
        return "int", bound if isinstance(bound, int) else None
    name = dotted(node) if node else ""
    return name if name in _NUMBERS else "bool" if name == "bool" else "value", None


def _truth(node: ast.expr | None, kind: str) -> tuple[str, str]:
    """Return the words for true and false: `type=bool` takes any text but an empty one for true."""
    if kind == "bool":
        return "true", ""
    if node is None:
        return "true", "false"
    is_python = last(node) in ("eval", "literal_eval") or (
        isinstance(node, ast.Lambda) and any(_is_word(one, "True") for one in ast.walk(node.body))
    )
    return ("True", "False") if is_python else ("true", "false")


def _is_word(node: ast.AST, word: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == word


def _set_defaults(options: dict[str, Option], call: ast.Call) -> None:
    for key, value in keywords(call).items():
        if key in options:
            options[key] = options[key]._replace(default=literal(value), required=False)


def _parsers(code: Code) -> set[str]:
    """List the names that a parser is bound to: assigned from one, or a parameter that is called so."""
    made = {name for name, value in code.values.items() if isinstance(value, ast.Call) and _is_parser(value.func)}
    return made | {"parser"}


def _is_parser(func: ast.expr) -> bool:
    return last(func).endswith(_PARSERS)


def _is_given_away(code: Code, source: Source, call: ast.Call, parsers: set[str]) -> bool:
    """Whether a parser is given to, or comes from, a function outside of the project, which may add arguments."""
    origin = source.origin(call.func)
    head = origin.partition(".")[0]
    if _is_parser(call.func):
        return code.is_outside(origin) and head not in _OWN_PARSERS
    if last(call.func) in ("parse_args", "parse_intermixed_args"):
        made = code.values.get(last(call.func.value)) if isinstance(call.func, ast.Attribute) else None
        is_foreign = isinstance(made, ast.Call) and not _is_parser(made.func)
        return is_foreign and code.is_outside(source.origin(made.func))  # type: ignore[union-attr]
    given = [*call.args, *(word.value for word in call.keywords)]
    if not any(last(one) in parsers for one in given if isinstance(one, ast.Name | ast.Attribute)):
        return False
    return head not in _ONLY_LOOK and code.function(last(call.func)) is None and code.klass(last(call.func)) is None


def _library_calls(code: Code, source: Source) -> list[ast.Call]:
    """List the calls in those functions of the library that a file calls, and in what they call themselves."""
    calls: list[ast.Call] = []
    for module in code.library:
        functions = {node.name: node for node in module.tree.body if isinstance(node, ast.FunctionDef)}
        pending, seen = source.part.names & functions.keys(), set[str]()
        while pending:
            name = pending.pop()
            seen.add(name)
            pending |= (part_of(functions[name]).names & functions.keys()) - seen
        calls += [call for name in functions if name in seen for call in part_of(functions[name]).calls]
    return calls
