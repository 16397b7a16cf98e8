"""typer: the signatures of the functions that are commands."""

import ast

from runner.definitions.options.argparse_calls import SPELLING, add
from runner.definitions.options.option import LISTED, REPEATED, Interface, Option
from runner.definitions.options.sources import Code, Function, keywords, last, literal, texts
from runner.tools.init.readers.fields import Annotation, Field, annotation, fields_of_function

MARKS = frozenset({"typer.Typer", "typer.run"})
_CONTEXTS = ("Context", "CallbackParam")


def read(code: Code) -> Interface:
    """Read the parameters of the commands; of several, those stand behind the command's name."""
    commands, callback, is_open = _commands(code)
    several = len(commands) > 1 or callback is not None
    options: dict[str, Option] = {}
    for field in fields_of_function(callback).fields if callback is not None else ():
        add(options, _option(code, field))
    if several:
        options["command"] = Option("command", "value", tuple(commands), required=True, depth=1)
    for name, function in commands.items():
        for field in fields_of_function(function).fields:
            option = _option(code, field)
            add(options, option._replace(depth=2, commands=(name,)) if several and option else option)
    is_open |= not commands or any(last(call.func) == "add_typer" for _, call in code.every_call())
    return Interface("typer", options, is_open)


def _commands(code: Code) -> tuple[dict[str, Function], Function | None, bool]:
    """Find the functions that are commands, the application's callback, and whether a command may take more."""
    commands: dict[str, Function] = {}
    callback, is_open = None, False
    for source, call in code.every_call():
        if source.origin(call.func) == "typer.run" and call.args and (found := code.functions.get(last(call.args[0]))):
            commands[found.name] = found
    apps = {name for name, value in code.values.items() if isinstance(value, ast.Call) and last(value.func) == "Typer"}
    for function in code.functions.values():
        for node in function.decorator_list:
            func = node.func if isinstance(node, ast.Call) else node
            if not isinstance(func, ast.Attribute) or last(func.value) not in apps:
                continue
            if func.attr == "command":
                given = texts(node.args) if isinstance(node, ast.Call) else []
                commands[given[0] if given else function.name.lower().replace("_", "-")] = function
                is_open |= isinstance(node, ast.Call) and "context_settings" in keywords(node)
            elif func.attr == "callback":
                callback = function
    return commands, callback, is_open


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
    kind = "bool" if field.type is None and isinstance(value, bool) else said.kind
    least = least if isinstance(least, int) and kind == "int" else None
    is_required = default is None or (isinstance(default, ast.Constant) and default.value is Ellipsis)
    found = Option(field.name, kind, said.choices, least, is_required, value, many=said.many)
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
    is_tuple = field.type is not None and any(last(part).lower() == "tuple" for part in ast.walk(field.type))
    many = REPEATED if said.many == LISTED and not is_tuple else said.many
    return option._replace(spelling=spelling, kind=kind, off=off, many=many)


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
