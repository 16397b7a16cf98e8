"""argparse: `add_argument` calls, wherever they stand, and the subcommands that they belong to."""

import ast
import bisect
import re

from runner.definitions.options.option import LISTED, REPEATED, Interface, Option
from runner.definitions.options.sources import (
    LIBRARY,
    Code,
    Source,
    dotted,
    keywords,
    last,
    literal,
    literals,
    part_of,
    texts,
)

_ADD = "add_argument"
_MARKS = {_ADD, "parse_known_args"}
_FLAGS = {"store_true": False, "store_false": True, "store_const": None, "append_const": None, "count": None}
_MAKES, _STARTS = "add_parser", "add_subparsers"
_GROUPS = ("add_argument_group", "add_mutually_exclusive_group", "add_argument")
_LONGEST_CHAIN = 20
_MOST_COMMANDS = 100
"""Subcommands that share an option; of more none is named."""
_Made = dict[tuple[int, str], list[tuple[int, ast.Call]]]
"""For each file and name the lines in which something is assigned to the name, with what."""
SPELLING = re.compile(r"-{0,2}[^\W_][\w.-]*")
_OWN_PARSERS = {"argparse", "configargparse", "gooey", "jsonargparse", "transformers", "trl", "simple_parsing"}
_ONLY_LOOK = {LIBRARY, "argcomplete", "shtab", "print", "vars", "repr", "str", "type", "isinstance", "super", "id"}
_ONLY_LOOK |= {"hasattr"}
"""Who is given a parser and declares nothing."""
_ADDS_UNSEEN = {"parse_known_args", "parse_known_intermixed_args", "add_class_arguments", "add_subclass_arguments"}
_ADDS_UNSEEN |= {"add_function_arguments", "add_method_arguments", "add_dataclass_arguments", "_add_action"}


def is_used(code: Code, source: Source) -> bool:
    """Return whether a file declares arguments, or calls functions of the library that do."""
    called = {name.rpartition(".")[2] for name in code.called(source)}
    return bool(called & _MARKS) or any(last(call.func) == _ADD for call in _library_calls(code, source))


def read(code: Code) -> Interface:
    """Collect `add_argument("--key", ...)` from a program and from what it imports.

    Of the project's own modules every call counts, of the library's those in functions that are called.
    """
    options: dict[str, Option] = {}
    made = {name for name, value in code.values.items() if isinstance(value, ast.Call) and _is_parser(value.func)}
    parsers = {*made, "parser"}
    command, names = _commands(code)
    assigned = _made(code) if command else {}
    is_open = False
    for source, call in code.every_call():
        name = last(call.func)
        if name == _ADD:
            option = declared(call)
            is_open |= option is None and not _ends(call)
            add(options, _placed(assigned, source, call, option) if command and option else option)
        elif name == "set_defaults":
            for key in keywords(call).keys() & options.keys():
                options[key] = options[key]._replace(default=literal(keywords(call)[key]), required=False)
        elif name in _ADDS_UNSEEN or _is_given_away(code, source, call, parsers):
            is_open = True
    if command:
        options = {command: Option(command, "value", names, required=True, depth=1), **options}
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
    if known.kind != option.kind and {known.kind, option.kind} <= {"int", "float", "value"}:
        options[key] = known._replace(kind="value", choices=(), least=None)
    elif known.choices != option.choices:
        options[key] = known._replace(choices=())
    required = known.required and option.required
    # Without names any command may take it.
    both = tuple(dict.fromkeys((*known.commands, *option.commands))) if known.commands and option.commands else ()
    options[key] = options[key]._replace(required=required, commands=both if len(both) <= _MOST_COMMANDS else ())


def declared(call: ast.Call) -> Option | None:
    """Read one `add_argument` call; None for one whose name is computed, or that ends the program."""
    spellings = texts(call.args)
    long = [word for word in spellings if word.startswith("--")]
    spelling = (long or spellings or [""])[0]
    if not SPELLING.fullmatch(spelling) or _ends(call) or any(isinstance(word, ast.Starred) for word in call.args):
        return None
    given = keywords(call)
    action = _action(given.get("action"))
    nargs = literal(given.get("nargs"))
    is_several = "nargs" in given and nargs not in ("?", 0)
    many = REPEATED if action in ("append", "extend") else LISTED if is_several else ""
    kind, least = _type(given.get("type")) if not many else ("value", None)
    kind = "switch" if action == "BooleanOptionalAction" else "flag" if action in _FLAGS else kind
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
        aliases=tuple(word for word in spellings if word != spelling),
    )


def _ends(call: ast.Call) -> bool:
    return _action(keywords(call).get("action")) in ("help", "version")


def _action(node: ast.expr | None) -> str:
    said = literal(node)
    return said if isinstance(said, str) else last(node) if node else ""


def _type(node: ast.expr | None) -> tuple[str, int | None]:
    """Return the kind that an argument's type gives it, and the lower bound of `trainkit.arguments.at_least`."""
    if isinstance(node, ast.Call) and last(node.func) == "at_least":
        bound = literal(node.args[0]) if node.args else None
        return "int", bound if isinstance(bound, int) else None
    name = dotted(node) if node else ""
    return name if name in ("int", "float", "bool") else "value", None


def _truth(node: ast.expr | None, kind: str) -> tuple[str, str]:
    """Return the words for true and false: `type=bool` takes any text but an empty one for true."""
    if kind == "bool":
        return "true", ""
    if node is None:
        return "true", "false"
    words = [part.value for part in ast.walk(node) if isinstance(node, ast.Lambda) and isinstance(part, ast.Constant)]
    is_python = last(node) in ("eval", "literal_eval") or "True" in words
    return ("True", "False") if is_python else ("true", "false")


def _is_parser(func: ast.expr) -> bool:
    return last(func).endswith("Parser")


def _is_given_away(code: Code, source: Source, call: ast.Call, parsers: set[str]) -> bool:
    """Return whether a parser is given to, or comes from, a function from outside, which may add arguments."""
    origin = source.origin(call.func)
    head = origin.partition(".")[0]
    if _is_parser(call.func):
        return code.is_outside(origin) and head not in _OWN_PARSERS
    if last(call.func) in ("parse_args", "parse_intermixed_args"):
        made = code.values.get(last(call.func.value)) if isinstance(call.func, ast.Attribute) else None
        is_foreign = isinstance(made, ast.Call) and not _is_parser(made.func)
        return is_foreign and code.is_outside(source.origin(made.func))  # type: ignore[union-attr]
    given = [*call.args, *(word.value for word in call.keywords)]
    if not any(last(value) in parsers for value in given if isinstance(value, ast.Name | ast.Attribute)):
        return False
    name = last(call.func)
    return head not in _ONLY_LOOK and name not in code.functions and name not in code.classes


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


def _commands(code: Code) -> tuple[str, tuple[str, ...]]:
    """Find the argument that names a subcommand, and all their names; an empty one for a program without any."""
    names: list[str] = []
    key = ""
    for _, call in code.every_call():
        if last(call.func) == _STARTS:
            key = key or str(literal(keywords(call).get("dest")) or "command")
        elif last(call.func) == _MAKES:
            names += texts(call.args)[:1]
    return key if key.isidentifier() else "", tuple(dict.fromkeys(names))


def _placed(made: _Made, source: Source, call: ast.Call, option: Option) -> Option:
    """Return an option that a call declares with its depth, and with the subcommand that takes it."""
    behind = option._replace(depth=2)
    for _ in range(_LONGEST_CHAIN):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if not isinstance(owner, ast.Call):
            lines = made.get((id(source.tree), last(owner)), []) if owner else []
            index = bisect.bisect_right(lines, call.lineno, key=lambda pair: pair[0])
            if not index:
                return behind  # the parameter of a function that adds what several subcommands share
            owner = lines[index - 1][1]
        call = owner
        if last(call.func) not in _GROUPS:
            is_of_command = last(call.func) == _MAKES
            return behind._replace(commands=tuple(texts(call.args)[:1])) if is_of_command else option._replace(depth=0)
    return behind


def _made(code: Code) -> _Made:
    made: _Made = {}
    for source in code.sources:
        if not source.part.names & {_MAKES, _STARTS}:
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                for target in node.targets:
                    made.setdefault((id(source.tree), last(target)), []).append((node.lineno, node.value))
    for found in made.values():
        found.sort(key=lambda pair: pair[0])
    return made
