"""The text of a definition: what was seen of the script, with comments that help a person to extend it."""

import shlex
from collections.abc import Iterator
from typing import Any

from runner.core.text import one_line
from runner.core.yaml_writer import to_yaml
from runner.definitions.program import Program
from runner.records.observed import SAMPLE_SECONDS
from runner.tools.init.reading import Reading
from runner.tools.init.traits import Traits

LIMIT_SECONDS = 1800


def definition_lines(
    name: str, program: Program, args: dict[str, Any], traits: Traits, reading: Reading
) -> Iterator[str]:
    """Write the lines of a definition."""
    processes = 2 if traits.parallel else 1
    launcher = ["python"] if traits.spawns else ["torchrun", "--standalone", f"--nproc-per-node={processes}"]
    words = shlex.join([*launcher, *program.words, *program.argv(args)])
    search = f"PYTHONPATH={shlex.quote(':'.join(program.search))} " if program.search else ""
    yield f"# By hand:  {one_line(search + words)}"
    yield _pair("name", name)
    several = "with one process and with two" if traits.parallel else "with one process"
    yield _pair("summary", one_line(f"How long does {program.name} take {several}?", 300))
    yield _pair("program", program.name)
    if traits.spawns:
        yield "launcher: python  # it starts the processes of its process group itself"
    if reading.dialects == ("none",):
        yield "dialect: none  # its output is not read; docs/dialects.md lists dialects, and says how to write one"
    elif reading.dialects:
        value = reading.dialects[0] if len(reading.dialects) == 1 else f"[{', '.join(reading.dialects)}]"
        yield f"dialect: {value}  # reads its output: {', '.join(reading.fields) or 'as docs/dialects.md says'}"
    if args:
        yield "args:"
        yield from (f"  {_pair(key, value)}" for key, value in args.items())
    yield f"# runner plan {name} --probe shows what else it takes; a list of values below matrix makes an axis of one."
    yield "matrix:"
    yield f"  layout: [{'1x1, 1x2' if traits.parallel else '1x1'}]  # {one_line(traits.why_layout, 300)}"
    if traits.cpu_alone:
        yield "skip:"
        why = "Lightning counts the processes by its argument devices, which is one on a CPU"
        yield f"  - {{layout: 1x2, when: cpu, why: '{why}'}}"
    counted = one_line(reading.unobserved, 300) or "of a sample, counted inside its processes"
    yield f"measure: {reading.measure}" + f"  # {counted}" * (reading.measure == SAMPLE_SECONDS)
    yield "repeat: 3  # runs of each cell; a claim needs 3"
    yield f"timeout_seconds: {LIMIT_SECONDS}  # when a run is ended"


def _pair(key: str, value: Any) -> str:
    return to_yaml({key: value}).rstrip("\n")
