"""Definitions are loaded, and every error names file, line, mistake and probable intention."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from runner.core.errors import RequestError
from runner.core.yaml_reader import read
from runner.core.yaml_writer import to_json
from runner.definitions import experiment as definition
from runner.definitions.choices import Selection
from runner.definitions.definition import schema
from runner.definitions.plan import make_plan
from tests.support.projects import Project

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "runner" / "definitions" / "definition.schema.json"
SCHEMA = schema()
FULL = """\
# By hand:  torchrun -m experiments.toys.ok
name: tiny
summary: A tiny experiment
program: toys.ok
args: {epochs: 2, seed: 1}
scaling: weak
matrix:
  layout: [1x1, 2+2, 2+3]
  batch_size: [8, 16]
skip:
  - {layout: 2+3, batch_size: 16, when: cuda, why: too large for the GPUs}
baseline: {layout: 1x1}
measure: total_seconds
repeat: 5
timeout_seconds: 12.5
published:
  source: "a100-ddp, section MNIST"
  rows:
    - {layout: 1x1, hardware: 1x A100, total_seconds: 170.24, where: table 1}
    - {layout: 2x2, batch_size: 8, hardware: 4x A100, train_loss: [2.0, 1.5], best_accuracy: 0.98}
"""


def load(project: Project, text: str) -> definition.Experiment:
    return definition.load(project.define(text), project.root)


def complaint(project: Project, text: str) -> str:
    with pytest.raises(RequestError) as caught:
        load(project, text)
    place, _, said = str(caught.value).partition(".yaml:")
    assert place == str(project.root / "experiments" / "tiny")
    assert said.isprintable()
    return said


def test_a_whole_definition_is_read_as_plain_json_whose_hash_does_not_change(project: Project) -> None:
    tiny, again = load(project, FULL), load(project, "# another comment\n\n" + FULL)
    assert json.loads(json.dumps(tiny.resolved())) == tiny.resolved()
    assert tiny.sha256() == again.sha256() == "40dedb8472ad36c670180a422f8c25415618039362b5739d341271410d350aeb"
    assert tiny.matrix == {"layout": ["1x1", "2x2", "2+3"], "batch_size": [8, 16]}
    for device, left_out in (("cuda", [("2+3", "too large for the GPUs")]), ("cpu", [])):
        assert [(point["layout"], why) for point, why in tiny.cells(device) if why] == left_out


SHAPES = [
    ("summary:", "sumary:", "3: unknown key 'sumary'; did you mean 'summary'?"),
    ("name: tiny", "name: Tiny_1", "2: 'name' has to be lower-case"),
    ("name: tiny\n", "", "2: 'name' is missing"),
    ("A tiny experiment", "[a]", "3: 'summary' has to be text, not ['a']"),
    ("scaling: weak", "scaling: week", "6: 'scaling' has to be strong or weak, not 'week'; did you mean 'weak'?"),
    ("  layout: [1x1, 2+2, 2+3]\n", "", "7: 'matrix' needs"),
    ("[1x1, 2+2, 2+3]", "[]", "8: 'layout' has to be a list of"),
    ("total_seconds", "train_secnds", "13: 'measure' has to be a time in seconds; did you mean 'train_seconds'"),
    ("repeat: 5", "repeat: 0", "14: 'repeat' has to be a whole number >= 1, not 0"),
    ("repeat: 5", "metrics: {loss: {pattern: x, bets: max}}", "14: unknown key 'bets'; did you mean 'best'?"),
    ("12.5", "0", "15: 'timeout_seconds' has"),
    ("best_accuracy: 0.98", "best_accuracy: 98", "20: 'best_accuracy' has"),
    (FULL, "# nothing\n", "1: 'the file' has to be a mapping"),
]
"""Mistakes that the JSON Schema finds too."""
MEANINGS = [
    ("name: tiny", "name: other", "2: the name 'other' has"),
    ("toys.ok\nargs", "toys.oh\nargs", "4: program 'toys.oh'"),
    ("epochs: 2", "epochs: 99999999999999999999", "5: 'epochs' has to be a whole number of 63"),
    ("epochs: 2", "ep ochs: 2", "5: arg 'ep ochs'"),
    ("epochs: 2", "device: cpu", "5: 'device'"),
    ("epochs: 2", "batch_size: 2", "5: 'batch_size'"),
    ("[1x1, 2+2, 2+3]", "[2x2, 2+2]", "8: layout 2x2"),
    ("batch_size: [8, 16]", "program: [toys.ok, 3]", "9: 'program' has"),
    ("{layout: 2+3, batch_size: 16, when", "{batchsize: 16, when", "11: unknown key 'batchsize'; did you mean 'batch_"),
    ("{layout: 2+3, batch_size: 16, when: cuda, ", "{", "10: every cell is skipped"),
    ("{layout: 2+3, batch_size: 16, when: cuda,", "{layout: 1x1,", "12: 'baseline' matches"),
    ("{layout: 2+3, batch_size: 16, when: cuda,", "{layout: 2+2,", "20: 'published' matches"),
    ("baseline: {layout: 1x1}", "baseline: {layout: 1x4}", "12: layout '1x4' matches no cell; did you mean '1x1'?"),
    ("12.5", ".nan", "15: 'timeout_seconds' has"),
    ("repeat: 5", "data: lime", "14: no family prepares the data 'lime'"),
    ("repeat: 5", "dialect: huggingfaec", "14: no dialect 'huggingfaec'"),
    ("repeat: 5", "launcher: python", "8: layout 2x2: "),
    ("batch_size: [8, 16]", f"batch_size: {[*range(9000)]}", "8: the matrix has 27,000"),
    ("repeat: 5", "metrics: {Loss: x}", "14: metric 'Loss': "),
]


@pytest.mark.parametrize(("old", "new", "said"), [*SHAPES, *MEANINGS], ids=lambda value: value[:30])
def test_a_mistake_is_named_with_its_line_and_what_was_meant(project: Project, old: str, new: str, said: str) -> None:
    assert old in FULL
    text = FULL.replace(old, new, 1)
    assert complaint(project, text).startswith(said)
    if (old, new, said) in SHAPES:
        assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(read(project.define(text)).values)


def test_nan_and_infinity_each_keep_an_identity_of_their_own(project: Project) -> None:
    head = "name: tiny\nsummary: s\nprogram: toys.ok\nmatrix: {layout: [1x1], lr: [.nan, .inf, -.inf, 1]}\n"
    tiny = load(project, head + "skip: [{lr: .nan, why: no number}]\n")
    assert tiny.resolved()["matrix"]["lr"] == ["nan", "inf", "-inf", 1]
    made = make_plan(tiny, Selection(only=["lr=.nan,.inf,-.inf"]))
    assert [cell.command().partition("ok ")[2] for cell in made.cells] == ["--lr inf", "--lr=-inf"]
    assert complaint(project, head.replace("-.inf", ".nan")).startswith("4: lr nan")


def test_definitions_are_found_by_name_and_by_path_and_a_name_that_two_have_is_refused(project: Project) -> None:
    root, path = project.root, project.define()
    assert definition.find("tiny", root) == definition.find(str(path), root) == path
    for name, said in (("tinny", "'tinny' in .*; did you mean 'tiny'"), ("x" * 5000, "no experiment")):
        with pytest.raises(RequestError, match=said):
            definition.find(name, root)
    twin = root / "experiments" / "toys" / "tiny.yaml"
    twin.write_bytes(path.read_bytes())
    for one in (path, twin):
        with pytest.raises(RequestError, match="experiments/tiny.yaml and experiments/toys/tiny.yaml"):
            definition.load(one, root)


def test_the_committed_schema_is_as_rendered(golden: Callable[..., None]) -> None:
    golden(COMMITTED, to_json(SCHEMA))
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_shipped_definition_names_the_schema_and_passes() -> None:
    shipped = definition.files(ROOT)
    assert len(shipped) > 8
    for path in shipped:
        first = path.read_text("utf-8").splitlines()[0]
        [named] = re.findall(r"^# yaml-language-server: \$schema=(.*)$", first)
        assert (path.parent / named).resolve() == COMMITTED
        jsonschema.validate(read(path).values, SCHEMA)
