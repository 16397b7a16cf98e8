"""python-fire: the signature of the function that `fire.Fire` is given, or the methods of its class."""

import ast

from runner.definitions.options.argparse_calls import add
from runner.definitions.options.option import Interface, Option
from runner.definitions.options.sources import Code, Function, last, literal
from runner.tools.init.readers.fields import (
    MOST_FIELDS,
    Annotation,
    Field,
    Fields,
    fields_of_class,
    fields_of_function,
    read_fields,
)
from runner.tools.init.readers.styles import PYTHON

_FIRE = "fire.Fire"
MARKS = frozenset({_FIRE})
_PROPERTIES = {"property", "cached_property", "setter", "deleter"}


def read(code: Code) -> Interface:
    """Read a function's parameters, or the methods of a class and what they take; whole modules are open."""
    for source, call in code.every_call():
        if source.origin(call.func) == _FIRE and call.args:
            given = call.args[0]
            klass = code.classes.get(last(given.func if isinstance(given, ast.Call) else given))
            function = code.functions.get(last(given))
            if klass is not None:
                return _of_class(code, klass, is_made=isinstance(given, ast.Call))
            if function is not None:
                options, is_open = read_fields(code, fields_of_function(function), _option)
                return Interface("fire", options, is_open, PYTHON)
    return Interface("fire", is_open=True, style=PYTHON)


def _of_class(code: Code, klass: ast.ClassDef, *, is_made: bool) -> Interface:
    """Read a class: what its constructor takes, unless the object is made, and each public method as a command."""
    above = fields_of_class(code, klass)
    methods = _methods(code, klass, set())
    init = methods.get("__init__")
    fields = Fields([], is_open=False) if is_made else fields_of_function(init, 1) if init else above
    options, is_open = read_fields(code, fields, _option)
    public = {name: method for name, method in methods.items() if not name.startswith("_")}
    names = () if above.is_open else tuple(public)
    options["command"] = Option("command", choices=names, required="__call__" not in methods, depth=1)
    is_open |= _add_methods(code, public, options) or above.is_open
    return Interface("fire", options, is_open, PYTHON)


def _add_methods(code: Code, methods: dict[str, Function], options: dict[str, Option]) -> bool:
    """Note what each method takes; returns whether there may be more."""
    is_open, looked = False, 0
    for name, method in methods.items():
        skip = 0 if _is_decorated(method, {"staticmethod"}) else 1
        found, has_more = read_fields(code, fields_of_function(method, skip), _option)
        looked += len(found)
        if looked > MOST_FIELDS:
            return True
        is_open |= has_more
        for option in found.values():
            add(options, option._replace(depth=2, commands=(name,)))
    return is_open


def _methods(code: Code, klass: ast.ClassDef, seen: set[str]) -> dict[str, Function]:
    """List the methods of a class by their names, those of its bases in the project among them."""
    methods: dict[str, Function] = {}
    seen.add(klass.name)
    for base in reversed(klass.bases):
        found = code.classes.get(last(base))
        if found is not None and found.name not in seen:
            methods.update(_methods(code, found, seen))
    own = (node for node in klass.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {**methods, **{method.name: method for method in own if not _is_decorated(method, _PROPERTIES)}}


def _is_decorated(function: Function, names: set[str]) -> bool:
    return any(last(node) in names for node in function.decorator_list)


def _option(name: str, field: Field, said: Annotation) -> Option:
    """Make an option; Fire reads every value as Python, whatever the annotation says."""
    kind, default = "value" if said.is_optional else said.kind, literal(field.default)
    return Option(f"--{name}", kind, required=field.required, default=default, style=PYTHON, truth=PYTHON.truth)
