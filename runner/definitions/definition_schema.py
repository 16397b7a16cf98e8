"""The JSON Schema of a definition, for editors: from the same tables as the checks.

What it accepts may still be refused: only `load` knows that programs exist and take the args, and that rows name cells.
"""

from __future__ import annotations

from typing import Any

from runner.definitions.args import args_schema, program_args_schema
from runner.definitions.axes import matrix_schema, row_schema
from runner.definitions.dialects import KEY, dialects_schema
from runner.definitions.experiment import KEYS
from runner.definitions.fields import FIELDS, PROGRAM
from runner.definitions.published import published_schema
from runner.definitions.skips import skips_schema

REQUIRED = ("name", "summary", "program", "scaling", "matrix")
FILE = "definition.schema.json"
"""Its name below `experiments/`; every definition names it in its first line."""


def schema() -> dict[str, Any]:
    """Return the schema, in JSON's own types."""
    properties: dict[str, Any] = {key: field.schema() for key, field in FIELDS.items()}
    baseline = "The cell to compare with, if it is not the one with one process."
    properties |= {
        KEY: dialects_schema(),
        "args": args_schema(),
        "program_args": program_args_schema(),
        "matrix": matrix_schema(PROGRAM.schema()),
        "skip": skips_schema(),
        "baseline": {**row_schema(), "description": baseline, "type": ["object", "null"]},
        "published": published_schema(),
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "An experiment of distributed-experiment-kit",
        "type": "object",
        "required": list(REQUIRED),
        "additionalProperties": False,
        "properties": {key: properties[key] for key in KEYS},
    }
