"""What functions take and what dataclasses hold: fields with an annotation and a default."""

import ast
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from runner.definitions.options.option import LISTED, Option
from runner.definitions.options.sources import (
    MOST_CHOICES,
    UNREADABLE,
    Code,
    Function,
    keywords,
    last,
    literal,
    literals,
)

_HARMLESS = {"object", "ABC", "Generic", "Protocol", "BaseModel", "Serializable", "NamedTuple"}
"""Bases from outside of a project that bring no fields of their own."""
MOST_FIELDS = 5_000
"""Fields of one program that are looked at, those of dataclasses in dataclasses counted."""
_KINDS = {"int": "int", "float": "float", "bool": "bool"}
_LISTS = {"list", "List", "Sequence", "Iterable", "tuple", "Tuple", "set", "Set"}
_MAPPINGS = {"dict", "Dict", "Mapping", "Any", "object"}
_ENUMS = {"Enum", "StrEnum", "IntEnum"}


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


class Field(NamedTuple):
    """A parameter or a field: its type as it stands there, its default if there is one, and a field's metadata."""

    name: str
    type: ast.expr | None
    default: ast.expr | None
    required: bool
    metadata: dict[str, ast.expr]


class Fields(NamedTuple):
    """Fields in their order; `is_open` if there are more that the source does not show."""

    fields: list[Field]
    is_open: bool


def fields_of_function(function: Function, skip: int = 0) -> Fields:
    """List the parameters of a function; `skip` leaves out the first ones, as `self`."""
    names = function.args
    positional = [*names.posonlyargs, *names.args]
    defaults = [*[None] * (len(positional) - len(names.defaults)), *names.defaults]
    pairs = [*zip(positional, defaults, strict=True), *zip(names.kwonlyargs, names.kw_defaults, strict=True)]
    found = [Field(name.arg, name.annotation, default, default is None, {}) for name, default in pairs[skip:]]
    return Fields(found, names.kwarg is not None or names.vararg is not None)


def fields_of_class(code: Code, klass: ast.ClassDef, seen: set[str] | None = None) -> Fields:
    """List the fields of a dataclass, those of its bases first."""
    fields: dict[str, Field] = {}
    is_open, seen = False, {klass.name} if seen is None else seen
    for base in klass.bases:
        name = last(base.value) if isinstance(base, ast.Subscript) else last(base)
        found = code.classes.get(name)
        if found is not None and name not in seen:
            seen.add(name)
            above = fields_of_class(code, found, seen)
            fields.update({field.name: field for field in above.fields})
            is_open |= above.is_open
        elif found is None and name not in _HARMLESS:
            is_open = True
    own = (node for node in klass.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name))
    fields.update({field.name: field for node in own if (field := _field(node))})
    return Fields(list(fields.values()), is_open)


def _field(node: ast.AnnAssign) -> Field | None:
    """Read `name: type = default` or `name: type = field(...)` of a dataclass."""
    name, kind = last(node.target), node.annotation
    of = kind.value if isinstance(kind, ast.Subscript) else kind
    if last(of) in ("ClassVar", "KW_ONLY") or name.startswith("_"):
        return None
    value = node.value
    if not (isinstance(value, ast.Call) and last(value.func).lower().endswith("field")):
        return Field(name, kind, value, value is None, {})
    given = keywords(value)
    if literal(given.get("init")) is False:
        return None
    default = given.get("default", value.args[0] if value.args else None)
    metadata = given.get("metadata")
    pairs = zip(metadata.keys, metadata.values, strict=True) if isinstance(metadata, ast.Dict) else ()
    named = {key.value: node for key, node in pairs if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    return Field(name, kind, default, default is None and "default_factory" not in given, named)


def read_fields(
    code: Code, found: Fields, make: Callable[[str, Field, Annotation], Option]
) -> tuple[dict[str, Option], bool]:
    """Return the options of fields, those of a dataclass in one below its name, `optimizer.lr`; and if more may be."""
    options: dict[str, Option] = {}
    known: dict[str, Fields] = {}
    is_open, looked = found.is_open, 0
    pending = deque([("", found, frozenset[str]())])
    while pending:
        prefix, fields, above = pending.popleft()
        for field in fields.fields:
            said, looked = annotation(code, field.type), looked + 1
            if looked > MOST_FIELDS or (said.klass and said.klass.name in above):
                return options, True
            if said.klass is None:
                if field.type is None and field.default is not None:
                    said = Annotation(kind_of(literal(field.default)))
                said = said._replace(is_optional=said.is_optional or is_none(field.default))
                options[prefix + field.name] = make(prefix + field.name, field, said)
            else:
                name = said.klass.name
                known[name] = known[name] if name in known else fields_of_class(code, said.klass)
                is_open |= known[name].is_open
                pending.append((f"{prefix}{field.name}.", known[name], above | {name}))
    return options, is_open


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
        except UNREADABLE:
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
