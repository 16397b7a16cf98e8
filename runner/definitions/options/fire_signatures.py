"""python-fire: the signature of the function that `fire.Fire` is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.definitions.options.fields import Field, fields_of_function, read_fields
from runner.definitions.options.literals import Annotation, literal
from runner.definitions.options.option import Interface, Option
from runner.definitions.options.sources import last
from runner.definitions.options.spelling import PYTHON, STYLES

if TYPE_CHECKING:
    from runner.definitions.options.sources import Code, Source

_FIRE = "fire.Fire"


def marks(code: Code, source: Source) -> bool:
    """Whether a file calls `fire.Fire`."""
    return any(source.origin(call.func) == _FIRE for call in code.calls(source))


def read(code: Code) -> Interface:
    """Read a function's parameters; a class, or whole modules, have methods and their arguments, which are open."""
    for source, call in code.every_call():
        if source.origin(call.func) == _FIRE:
            given = last(call.args[0]) if call.args else ""
            function = code.function(given) if given and code.klass(given) is None else None
            if function is not None:
                options, is_open = read_fields(code, fields_of_function(function), _option)
                return Interface("fire", options, is_open, PYTHON)
    return Interface("fire", is_open=True, style=PYTHON)


def _option(name: str, field: Field, said: Annotation) -> Option:
    """Make an option; Fire reads every value as Python, whatever the annotation says."""
    kind = "value" if said.many or said.is_optional else said.kind
    truth = STYLES[PYTHON].truth
    return Option(f"--{name}", kind, required=field.required, default=literal(field.default), style=PYTHON, truth=truth)
