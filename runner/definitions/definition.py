"""The keys of a definition, their types and meanings, and the JSON Schema made of them."""

import hashlib
import itertools
import json
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from runner.core.layout import PATTERN
from runner.core.values import spell_non_finite
from runner.definitions.args import Value
from runner.definitions.program import Program
from runner.definitions.settings import Settings

Device = Literal["cpu", "cuda"]
DEVICES = get_args(Device)
Scaling = Literal["strong", "weak"]
SCALINGS = get_args(Scaling)
NAME = r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$"
NAME_FORM = "lower-case letters, digits and hyphens, 40 at most"
LONGEST_PROGRAM = 100
WORD = r"[A-Za-z_][A-Za-z0-9_]*"
PROGRAM = rf"^(?:{WORD}(\.{WORD})+|([^/\\\x00-\x1f]+/)*[^/\\\x00-\x1f]+\.py)$"
_LATER = ("launcher", "data", "dialect", "metrics", "env", "patience_seconds")
"""Keys added later. The hash omits such a key if it has its default value, so that older hashes stay valid."""

Text = Annotated[str, Meta(pattern=r"\S", title="text that is not blank")]
ProgramName = Annotated[
    str,
    Meta(
        pattern=PROGRAM,
        max_length=LONGEST_PROGRAM,
        title="<family>.<program>, for example mnist.ddp, or the path of a script, for example path/to/train.py",
    ),
]
Seconds = Annotated[float, Meta(gt=0, le=31_536_000)]
Figure = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(gt=0, le=1)]
Curve = Annotated[list[float], Meta(min_length=1)]
Args = dict[str, Value | list[Value]]
_LAYOUT = {
    "description": "nodes x processes, or the processes of each node: 1x2, 2+3.",
    "pattern": f"^(?:{PATTERN})$",
}


class Metric(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A figure read from the output; its last value is kept, and with best also its largest or smallest."""

    pattern: Text
    best: Literal["max", "min"] | None = None


class Cells(msgspec.Struct):
    """A mapping that selects cells by axis values, in addition to the keys that its class declares."""


class Skip(Cells):
    """Cells to leave out."""

    why: Annotated[Text, Meta(description="Shown in plans and summaries.")]
    when: Annotated[Device | None, Meta(description="Only on this device.")] = None


class Row(Cells):
    """A row of figures that a document published."""

    hardware: Annotated[Text, Meta(description="The devices, for example 2x A100.")]
    where: Text | None = None
    note: Text | None = None
    total_seconds: Figure | None = None
    train_seconds: Figure | None = None
    round_trip_seconds: Figure | None = None
    speedup: Figure | None = None
    accuracy: Share | None = None
    best_accuracy: Share | None = None
    train_loss: Curve | None = None
    val_loss: Curve | None = None


SkipOfCells = Annotated[dict[str, Any], Meta(extra_json_schema={"$ref": "#/$defs/Skip"})]
RowOfCells = Annotated[dict[str, Any], Meta(extra_json_schema={"$ref": "#/$defs/Row"})]


class Published(msgspec.Struct, forbid_unknown_fields=True):
    """Figures that a document published."""

    source: Annotated[Text, Meta(description="The document, by its name in experiments/README.md, and its section.")]
    rows: Annotated[
        list[Annotated[dict[str, Any], Meta(extra_json_schema={"$ref": "#/$defs/Row"})]], Meta(min_length=1)
    ]


class Definition(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An experiment of distributed-experiment-kit."""

    name: Annotated[str, Meta(pattern=NAME, title=NAME_FORM, description="The file's name without .yaml.")]
    summary: Annotated[Text, Meta(description="The question that the experiment answers.")]
    program: Annotated[
        ProgramName,
        Meta(description="A module below experiments/, <family>.<program>; or a script, by its path in the project."),
    ]
    launcher: Annotated[
        Literal["torchrun", "python"],
        Meta(description="python for a program that starts its own processes; its layout is 1x1."),
    ] = "torchrun"
    data: Annotated[
        str | None, Meta(description="The family whose prepare.py fetches the data: runner prepare <family>.")
    ] = None
    dialect: Annotated[
        str | Annotated[list[Text], Meta(min_length=1)] | None,  # msgspec 0.22 crashes on a pattern beside an array
        Meta(
            description="How to read the stdout of a program that does not use the kit: dialects of the kit, or files"
            " of the project."
        ),
    ] = None
    metrics: Annotated[
        dict[str, Text | Metric],
        Meta(description="Figures to read from stdout, each by a regular expression with one group, a number."),
    ] = {}
    args: Annotated[
        Args,
        Meta(
            description="Arguments of each program: --key value; true: --key; null, false: nothing; a list: each value."
        ),
    ] = {}
    program_args: Annotated[
        dict[str, Args], Meta(description="Arguments of a single program of the matrix, added to args.")
    ] = {}
    env: Annotated[
        dict[str, str],
        Meta(description="Environment variables of the processes, as text; an axis of the matrix is env.NAME."),
    ] = {}
    scaling: Annotated[
        Scaling | None,
        Meta(
            description="weak: batch_size is per process; strong: it is the global batch. Without it no speed-up is"
            " stated, unless the program counts its samples."
        ),
    ] = None
    matrix: Annotated[
        dict[str, Annotated[list[Value], Meta(min_length=1)]],
        Meta(
            description="The axes: every combination of their values is a cell. All but layout become --key value.",
            extra_json_schema={
                "required": ["layout"],
                "properties": {"layout": {"type": "array", "minItems": 1, "items": {"type": "string", **_LAYOUT}}},
            },
        ),
    ]
    skip: Annotated[
        list[SkipOfCells],
        Meta(description="Cells to leave out, selected by their axis values."),
    ] = []
    baseline: Annotated[
        dict[str, Value], Meta(description="The cell to compare with; by default the one with one process.")
    ] = {}
    measure: Annotated[
        str,
        Meta(
            pattern=r"^[a-z][a-z0-9_]*_seconds$",
            title="a time in seconds, for example train_seconds",
            description="The time to compare.",
        ),
    ] = "train_seconds"
    repeat: Annotated[int, Meta(ge=1, le=1000, description="How many times each cell is run.")] = 3
    timeout_seconds: Annotated[Seconds, Meta(description="The time limit of a run.")] = 1800.0
    patience_seconds: Annotated[
        Seconds | None,
        Meta(description="End a run if no rank has reported anything for this long; by default never."),
    ] = None
    published: Annotated[
        Published | None, Meta(description="Figures that a document published, shown next to the measured ones.")
    ] = None


class Experiment(Definition, kw_only=True):
    """A checked definition of a project, with layouts in canonical form.

    `dialects` maps each dialect file of the project to its text, and each dialect of the kit to "".
    """

    path: Path
    root: Path
    settings: Settings
    programs: dict[str, Program]
    dialects: dict[str, str] = {}

    @property
    def patterns(self) -> dict[str, dict[str, str]]:
        """The pattern of each metric, and its `best` if given."""
        return {
            name: {"pattern": said} if isinstance(said, str) else msgspec.to_builtins(said)
            for name, said in self.metrics.items()
        }

    def resolved(self) -> dict[str, Any]:
        """Return the definition, including defaults, as plain JSON values for the record.

        NaN and infinity, which JSON lacks, become the texts "nan" and "inf".
        """
        values = {field.name: getattr(self, field.name) for field in msgspec.structs.fields(Definition)}
        values |= {"dialect": self.dialects or None, "metrics": self.patterns}
        defaults = {field.name: field for field in msgspec.structs.fields(Definition) if field.name in _LATER}
        kept = {
            key: value
            for key, value in values.items()
            if key not in defaults or (value and value != defaults[key].default)
        }
        resolved: dict[str, Any] = spell_non_finite(msgspec.to_builtins(kept))
        return resolved

    def cells(
        self, device: str | None = None, layouts: list[str] | None = None
    ) -> list[tuple[dict[str, Any], str | None]]:
        """Return each point of the matrix, with the reason if the point is skipped on the device, else with None.

        If `layouts` are given, they replace the layouts of the matrix.
        """
        matrix = {**self.matrix, "layout": layouts or self.matrix["layout"]}
        skips = [skip for skip in self.skip if skip.get("when") in (None, device)]
        points = [dict(zip(matrix, values, strict=True)) for values in itertools.product(*matrix.values())]
        return [(point, next((skip["why"] for skip in skips if agrees(skip, point)), None)) for point in points]

    def sha256(self) -> str:
        """Return the SHA-256 of the resolved definition."""
        return hash_resolved(self.resolved())


def agrees(row: dict[str, Any], point: dict[str, Any]) -> bool:
    """Return whether a point has the row's value on every axis that the row names."""
    return all(identity(row[axis]) == identity(value) for axis, value in point.items() if axis in row)


_NAN = object()


def identity(value: object) -> tuple[bool, object]:
    """Return a key that is equal for equal axis values: 1 equals 1.0 and NaN equals NaN, but true is not 1."""
    return isinstance(value, bool), _NAN if value != value else value  # only NaN differs from itself


def hash_resolved(resolved: dict[str, Any]) -> str:
    """Return the SHA-256 of a resolved definition from a record."""
    written = json.dumps(resolved, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a definition. The schema does not check programs, dialects and cells; `load` does."""
    _, parts = msgspec.json.schema_components((Definition, Skip, Row), ref_template="#/$defs/{name}")
    whole = parts.pop("Definition")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole, "$defs": parts}
