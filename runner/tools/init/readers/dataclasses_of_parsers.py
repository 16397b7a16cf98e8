"""Parsers of dataclasses and signatures: HfArgumentParser, tyro, simple_parsing, jsonargparse and LightningCLI."""

import ast
import re
from collections.abc import Callable

from runner.definitions.options import argparse_calls
from runner.definitions.options.option import Interface, Option
from runner.definitions.options.sources import Code, keywords, last, literal, literals
from runner.tools.init.readers.fields import (
    Annotation,
    Field,
    Fields,
    fields_of_class,
    fields_of_function,
    is_none,
    read_fields,
)

FEW_STEPS = 10
_OF_TRAINER = re.compile(r"TrainingArguments$|^[A-Z]{3,}[a-z]?Config$")
"""Classes of transformers and trl with the arguments of a Trainer, which has `max_steps`: SFTConfig, for example."""
_HF = ("HfArgumentParser", "TrlParser", "H4ArgumentParser")
_LIGHTNING = "LightningCLI"
_SIMPLE = frozenset({"simple_parsing.parse", "simple_parsing.helpers.parse"})
_JSONARGPARSE = frozenset({"jsonargparse.CLI", "jsonargparse.auto_cli"})
HF = frozenset(f".{name}" for name in _HF)
TYRO = frozenset({"tyro.cli"})
SIMPLE = _SIMPLE | {"simple_parsing.parse_known_args", "simple_parsing.ArgumentParser"}
JSONARGPARSE = _JSONARGPARSE | {f".{_LIGHTNING}"}
_OUTSIDE = Fields([], is_open=True)


def read_hf(code: Code) -> Interface:
    """Read the fields of the dataclasses; names keep their underscores, and booleans take `true` or `false`.

    Classes from outside of the project, as TrainingArguments, have fields that are not seen.
    """
    options, is_open, short = dict[str, Option](), False, dict[str, object]()
    for _, call in code.every_call():
        is_open |= any(word.arg == "return_remaining_strings" for word in call.keywords)
        for node in _classes(code, call) if last(call.func) in _HF else ():
            found = _fields(code, node)
            read, more = read_fields(code, found, _hf_option)
            options.update({key: option for key, option in read.items() if "." not in key})
            is_open |= more or len(read) < len(found.fields)
            short |= {"max_steps": FEW_STEPS} if _is_of_trainer(code, node) else {}
    declared = argparse_calls.read(code)  # what it is given by `add_argument`
    return Interface("hf", {**declared.options, **options}, is_open or declared.is_open, short=short)


def _classes(code: Code, call: ast.Call) -> list[ast.expr]:
    """List the classes that a parser is given; an expression that names none stands for one from outside."""
    given = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "dataclass_types")]
    nodes = [code.values.get(node.id, node) if isinstance(node, ast.Name) else node for node in given]
    return [klass for node in nodes for klass in (node.elts if isinstance(node, ast.Tuple | ast.List) else [node])]


def _fields(code: Code, node: ast.expr) -> Fields:
    if (klass := code.classes.get(last(node))) is not None:
        return fields_of_class(code, klass)
    function = code.functions.get(last(node))
    return fields_of_function(function) if function is not None else _OUTSIDE


def _is_of_trainer(code: Code, node: ast.expr) -> bool:
    """Return whether a class, or one that it is made from, is known to hold the arguments of a Trainer."""
    pending, seen = [last(node)], set[str]()
    while pending:
        name = pending.pop()
        klass = code.classes.get(name)
        if klass is None and _OF_TRAINER.search(name):
            return True
        if klass is not None and name not in seen:
            seen.add(name)
            pending += [last(base) for base in klass.bases]
    return False


def _hf_option(name: str, field: Field, said: Annotation) -> Option:
    choices = said.choices or literals(field.metadata.get("choices"))
    is_required = field.required and said.kind != "bool"
    return Option(f"--{name}", said.kind, choices, None, is_required, literal(field.default), many=said.many)


def read_tyro(code: Code) -> Interface:
    """Read the class or function that `tyro.cli` is given."""
    return _read(code, "tyro", TYRO, _tyro_option)


def _tyro_option(name: str, field: Field, said: Annotation) -> Option:
    spelling = f"--{name.replace('_', '-')}"
    kind = "switch" if said.kind == "bool" and not field.required and not is_none(field.default) else said.kind
    # The hyphen of `no-` stands behind the prefix: --optimizer.no-amp.
    prefix, dot, own = spelling[2:].rpartition(".")
    off = f"--{prefix}{dot}no-{own}" if kind == "switch" else ""
    default = literal(field.default)
    # None is a choice of its own.
    kind = "value" if said.is_optional and kind != "switch" else kind
    truth = ("True", "False")
    return Option(spelling, kind, said.names, None, field.required, default, off, said.many, truth=truth)


def read_simple(code: Code) -> Interface:
    """Read the dataclasses that simple_parsing is given; those of a field of one have no prefix."""
    declared = argparse_calls.read(code)
    options, is_open = dict(declared.options), declared.is_open
    for source, call in code.every_call():
        if (source.origin(call.func) in _SIMPLE or last(call.func) == "add_arguments") and call.args:
            read, more = read_fields(code, _fields(code, call.args[0]), _simple_option)
            options.update({key.rpartition(".")[2]: option for key, option in read.items()})
            is_open |= more or any("." in key for key in read)
    return Interface("simple_parsing", options, is_open)


def _simple_option(name: str, field: Field, said: Annotation) -> Option:
    option = _hf_option(name.rpartition(".")[2], field, said._replace(choices=said.names))
    return option._replace(required=field.required)


def read_jsonargparse(code: Code) -> Interface:
    """Read the function that `CLI` is given; Lightning's has subcommands, and takes all of Trainer, model and data."""
    for source, call in code.every_call():
        if last(call.func) == _LIGHTNING:
            runs = literal(keywords(call).get("run")) is not False
            names = ("fit", "validate", "test", "predict")
            command = {"command": Option("command", "value", names, required=True, depth=1)} if runs else {}
            first: dict[str, object] = {"command": "fit"} if runs else {}
            return Interface("lightning", command, is_open=True, short={**first, "trainer.max_steps": FEW_STEPS})
        if source.origin(call.func) in _JSONARGPARSE and keywords(call).keys() - {"as_positional"}:
            return Interface("jsonargparse", is_open=True)
    return _read(code, "jsonargparse", _JSONARGPARSE, _jsonargparse_option)


def _jsonargparse_option(name: str, field: Field, said: Annotation) -> Option:
    is_positional = field.required and "." not in name
    kind = "value" if said.is_optional else said.kind
    spelling = name if is_positional else f"--{name}"
    return Option(spelling, kind, said.names, None, field.required, literal(field.default))


def _read(code: Code, kind: str, calls: frozenset[str], make: Callable[[str, Field, Annotation], Option]) -> Interface:
    """Read the class or function that a call is given; of several, or of none that is seen, all is open."""
    for source, call in code.every_call():
        if source.origin(call.func) in calls:
            name = last(call.args[0]) if call.args else ""
            if code.classes.get(name) is None and code.functions.get(name) is None:
                break
            options, is_open = read_fields(code, _fields(code, call.args[0]), make)
            return Interface(kind, options, is_open)
    return Interface(kind, is_open=True)
