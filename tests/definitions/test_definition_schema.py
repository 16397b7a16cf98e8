"""The JSON Schema of a definition: as it is committed, and never stricter than the checks."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runner.core.errors import RequestError
from runner.core.yaml_reader import read
from runner.core.yaml_writer import to_json
from runner.definitions.definition import schema
from runner.definitions.experiment import KEYS, files, load

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "experiments" / "definition.schema.json"
SCHEMA = schema()
SHIPPED = files(ROOT)
GOOD = {
    "name": "tiny",
    "summary": "s",
    "program": "toy.ddp",
    "args": {"steps": 5, "lr": 0.5},
    "scaling": "weak",
    "matrix": {"layout": ["1x1", "2+3"], "batch_size": [8, 16]},
    "skip": [{"layout": "2+3", "batch_size": 16, "when": "cuda", "why": "too large"}],
    "baseline": {"layout": "1x1"},
    "measure": "train_seconds",
    "repeat": 2,
    "timeout_seconds": 10,
    "patience_seconds": 5,
    "published": {"source": "s", "rows": [{"layout": "1x1", "hardware": "1x A100", "train_seconds": 1.5}]},
}


def test_the_committed_schema_is_as_rendered(golden: Callable[..., None]) -> None:
    golden(COMMITTED, to_json(SCHEMA))
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_every_shipped_definition_names_the_schema_and_passes() -> None:
    assert len(SHIPPED) > 8
    for path in SHIPPED:
        first = path.read_text("utf-8").splitlines()[0]
        [named] = re.findall(r"^# yaml-language-server: \$schema=(.*)$", first)
        assert (path.parent / named).resolve() == COMMITTED
        jsonschema.validate(read(path).values, SCHEMA)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["layout", "steps"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(max_examples=80)
@example({})
@given(st.dictionaries(st.sampled_from(KEYS), VALUES | st.sampled_from(list(GOOD.values())), max_size=3))
def test_what_the_checks_accept_the_schema_accepts(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, Any]
) -> None:
    values, path = {**GOOD, **changes}, tmp_path_factory.getbasetemp() / "tiny.yaml"
    path.write_text(json.dumps(values))
    try:
        load(path, ROOT)
    except RequestError:
        assert changes
    else:
        jsonschema.validate(values, SCHEMA)
