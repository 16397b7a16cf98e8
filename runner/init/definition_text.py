"""The text of a definition: what was seen of the script, with comments that help a person to extend it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.core.text import one_line
from runner.core.yaml_writer import to_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.definitions.options import Option
    from runner.definitions.program import Program
    from runner.init.reading import Reading
    from runner.init.traits import Traits

LONGEST_LIST = 40
"""Options that a definition lists."""
_KINDS = {"int": "a whole number", "float": "a number", "flag": "true or false", "switch": "true or false"}
_HYDRA = """\
Settings of Hydra are args too, by their dotted names; the script's own configuration says which there are.
args: {epochs: 1}"""
_YAML = "Further settings are in a YAML file that the script reads; another file is another definition, or an axis."


@dataclass(frozen=True)
class Facts:
    """All that a definition is written from."""

    name: str
    program: Program
    args: dict[str, Any]
    traits: Traits
    reading: Reading


def definition_text(facts: Facts) -> str:
    """Write the definition."""
    return "\n".join(_lines(facts)) + "\n"


def _lines(facts: Facts) -> Iterator[str]:
    traits, reading, program = facts.traits, facts.reading, facts.program
    processes = 2 if traits.parallel else 1
    words = shlex.join(["torchrun", "--standalone", f"--nproc-per-node={processes}", *program.words])
    search = f"PYTHONPATH={shlex.quote(':'.join(program.search))} " if program.search else ""
    yield f"# By hand:  {one_line(search + words + _args(facts))}"
    yield _pair("name", facts.name)
    several = "with one process and with two" if traits.parallel else "with one process"
    yield _pair("summary", one_line(f"How long does {program.name} take {several}?", 300))
    yield _pair("program", program.name)
    if reading.dialects == ("none",):
        yield "dialect: none  # its output is not read; docs/dialects.md lists dialects, and says how to write one"
    elif reading.dialects:
        value = reading.dialects[0] if len(reading.dialects) == 1 else f"[{', '.join(reading.dialects)}]"
        yield f"dialect: {value}  # reads its output: {', '.join(reading.fields) or 'as docs/dialects.md says'}"
    yield from _arguments(facts)
    yield f"scaling: {traits.scaling}  # {traits.why_scaling}"
    yield "matrix:"
    yield f"  layout: [{'1x1, 1x2' if traits.parallel else '1x1'}]  # {traits.why_layout}"
    if traits.cpu_alone:
        yield "skip:"
        why = "Lightning counts the processes by its argument devices, which is one on a CPU"
        yield f"  - {{layout: 1x2, when: cpu, why: '{why}'}}"
    yield f"measure: {reading.measure}" + (f"  # {reading.why_measure}" if reading.why_measure else "")
    yield "repeat: 3  # runs of each cell; a claim needs 3"
    yield "timeout_seconds: 1800  # when a run is ended"


def _args(facts: Facts) -> str:
    words = facts.program.argv(facts.args)
    return f" {shlex.join(words)}" if words else ""


def _arguments(facts: Facts) -> Iterator[str]:
    """Write the args, and as comments what else the script takes."""
    if facts.args:
        yield "args:"
        yield from (f"  {_pair(key, value)}" for key, value in facts.args.items())
    others = {key: option for key, option in facts.program.options.items() if key not in facts.args}
    if others:
        what = "It also takes" if facts.args else "args that it takes"
        yield f"# {what}, here or, with a list of values, as an axis of the matrix:"
        yield from (f"#   {describe(key, option)}" for key, option in list(others.items())[:LONGEST_LIST])
        if len(others) > LONGEST_LIST:
            yield f"#   ... and {len(others) - LONGEST_LIST} more"
    if facts.traits.hydra:
        yield from (f"# {line}" for line in _HYDRA.splitlines())
    elif facts.traits.yaml:
        yield f"# {_YAML}"


def describe(key: str, option: Option) -> str:
    """Describe an option of the script in one line."""
    kind = "one of " + ", ".join(map(str, option.choices)) if option.choices else _KINDS.get(option.kind, "a text")
    return one_line(f"{key}: {kind}", 110)


def _pair(key: str, value: Any) -> str:
    return to_yaml({key: value}).rstrip("\n")
