"""Values that stand in a source as they are, and what an annotation says of a value."""

import ast
from typing import NamedTuple

from runner.core.values import LARGEST_WHOLE
from runner.definitions.options.option import LISTED
from runner.definitions.options.sources import Code, last

LONGEST = 10_000
MOST_CHOICES = 1_000
_KINDS = {"int": "int", "float": "float", "bool": "bool"}
_LISTS = {"list", "List", "Sequence", "Iterable", "tuple", "Tuple", "set", "Set"}
_MAPPINGS = {"dict", "Dict", "Mapping", "Any", "object"}
_ENUMS = {"Enum", "StrEnum", "IntEnum"}
_UNREADABLE = (ValueError, TypeError, SyntaxError, MemoryError, RecursionError)


class Annotation(NamedTuple):
    """What an annotation says: the kind, choices and number of a value, or the class that holds further ones.

    `names` are those of an enumeration, whose values are the choices.
    """

    kind: str = "value"
    choices: tuple[object, ...] = ()
    names: tuple[object, ...] = ()
    many: str = ""
    klass: ast.ClassDef | None = None
    is_optional: bool = False


def literal(node: ast.expr | None) -> object:
    """Return the number, text, true or false that stands there; None for anything else."""
    value = _evaluated(node)
    return value if _is_plain(value) else None


def literals(node: ast.expr | None) -> tuple[object, ...]:
    """Return the items of a list that stand in the source as they are; none if they are computed."""
    values = _evaluated(node)
    if not isinstance(values, list | tuple | set) or len(values) > MOST_CHOICES or not all(map(_is_plain, values)):
        return ()
    return tuple(values)


def keywords(call: ast.Call) -> dict[str, ast.expr]:
    """Return the named arguments of a call."""
    return {word.arg: word.value for word in call.keywords if word.arg}


def texts(nodes: list[ast.expr]) -> list[str]:
    """Return the texts among the arguments of a call."""
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def is_none(node: ast.expr | None) -> bool:
    """Return whether `None` stands there."""
    return isinstance(node, ast.Constant) and node.value is None


def kind_of(value: object) -> str:
    """Return the kind of a default, for an argument without a type: any number may follow a number."""
    return "bool" if isinstance(value, bool) else "float" if isinstance(value, int | float) else "value"


def annotation(code: Code, node: ast.expr | None) -> Annotation:
    """Read an annotation."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            node = ast.parse(node.value, mode="eval").body
        except _UNREADABLE:
            return Annotation()
    if isinstance(node, ast.BinOp):
        return _union(code, [node.left, node.right])
    if isinstance(node, ast.Subscript):
        return _subscript(code, node)
    return Annotation() if node is None else _named(code, last(node))


def _subscript(code: Code, node: ast.Subscript) -> Annotation:
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    name = last(node.value)
    if name == "Literal":
        choices = literals(ast.List(inner, ast.Load()))
        return Annotation(choices=choices, names=choices)
    if name == "Optional":
        return _union(code, [*inner, ast.Constant(None)])
    if name == "Union":
        return _union(code, inner)
    if name in ("Annotated", "Final") and inner:
        return annotation(code, inner[0])
    return Annotation(many=LISTED) if name in _LISTS else Annotation()


def _union(code: Code, parts: list[ast.expr]) -> Annotation:
    real = [part for part in parts if not is_none(part)]
    if len(real) == 1:
        return annotation(code, real[0])._replace(is_optional=True)
    # `float | int` is a number; of other unions nothing is checked.
    is_number = bool(real) and all(annotation(code, part).kind in ("int", "float") for part in real)
    return Annotation("float" if is_number else "value", is_optional=len(real) < len(parts))


def _named(code: Code, name: str) -> Annotation:
    if name in _KINDS:
        return Annotation(_KINDS[name])
    if name in _LISTS:
        return Annotation(many=LISTED)
    klass = code.classes.get(name) if name not in _MAPPINGS else None
    if klass is None or not any(last(base) in _ENUMS for base in klass.bases):
        return Annotation(klass=klass)
    members = [(last(node.targets[0]), node.value) for node in klass.body if isinstance(node, ast.Assign)]
    members = [(name, value) for name, value in members if not name.startswith("_")]
    values = tuple(literal(value) for _, value in members)
    if len(members) > MOST_CHOICES:
        return Annotation()
    return Annotation(choices=() if None in values else values, names=tuple(name for name, _ in members))


def _evaluated(node: ast.expr | None) -> object:
    try:
        return ast.literal_eval(node) if node is not None else None
    except _UNREADABLE:
        return None


def _is_plain(value: object) -> bool:
    if isinstance(value, int):
        return abs(value) <= LARGEST_WHOLE
    return isinstance(value, float) or (isinstance(value, str) and len(value) <= LONGEST and value.isprintable())
