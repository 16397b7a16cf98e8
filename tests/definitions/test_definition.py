"""YAML -> Experiment; every complaint has file:line, what is wrong and what was meant."""

import json

import jsonschema
import pytest

from runner.core.errors import RequestError
from runner.core.yaml_reader import read
from runner.definitions import experiment as definition
from runner.definitions.definition import schema
from tests.support.projects import Project

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
    path = project.define(text)
    with pytest.raises(RequestError) as caught:
        definition.load(path, project.root)
    said = str(caught.value)
    assert said.startswith(f"{path}:")
    assert said.isprintable()
    return said.removeprefix(f"{path}:").replace(str(project.root), "<project>")


def test_a_whole_definition_is_read(project: Project) -> None:
    tiny = load(project, FULL)
    assert tiny.args == {"epochs": 2, "seed": 1}
    assert tiny.matrix == {"layout": ["1x1", "2x2", "2+3"], "batch_size": [8, 16]}
    assert (tiny.scaling, tiny.measure, tiny.repeat, tiny.timeout_seconds) == ("weak", "total_seconds", 5, 12.5)
    assert [(skip.match, skip.when, skip.why) for skip in tiny.skip] == [
        ({"layout": "2+3", "batch_size": 16}, "cuda", "too large for the GPUs")
    ]
    assert tiny.baseline == {"layout": "1x1"}
    assert tiny.published is not None
    assert [row["layout"] for row in tiny.published["rows"]] == ["1x1", "2x2"]


def test_what_is_not_said_has_a_default(project: Project) -> None:
    text = "name: tiny\nsummary: s\nprogram: toys.ok\nscaling: strong\nmatrix: {layout: [1x1]}\n"
    tiny = load(project, text)
    assert (tiny.measure, tiny.repeat, tiny.timeout_seconds) == ("train_seconds", 3, 1800)
    assert (tiny.args, tiny.skip, tiny.baseline, tiny.published) == ({}, (), {}, None)


def test_the_resolved_definition_is_plain_json_and_its_hash_does_not_change(project: Project) -> None:
    tiny, again = load(project, FULL), load(project, "# another comment\n\n" + FULL)
    assert json.loads(json.dumps(tiny.resolved())) == tiny.resolved()
    assert tiny.sha256() == again.sha256()
    assert load(project, FULL.replace("epochs: 2", "epochs: 3")).sha256() != tiny.sha256()


SHAPES = [
    ("summary:", "sumary:", "3: unknown key 'sumary'; did you mean 'summary'?"),
    ("name: tiny", "name: Tiny_1", "2: name 'Tiny_1' has to be lower-case"),
    ("name: tiny", r'name: "t\x1b[2Jny"', r"2: name 't\x1b[2Jny' has to be lower-case letters"),
    ("name: tiny\n", "", "2: 'name' is missing"),
    ("summary: A tiny experiment", "summary: [a]", "3: 'summary' has to be text, not"),
    ("summary: A tiny experiment", "summary: ' '", "3: 'summary' has to be text, not"),
    ("toys.ok\nargs", "ok\nargs", "4: program 'ok' has to be <family>.<program>,"),
    ("epochs: 2", "epochs: [[2]]", "5: arg 'epochs' has to be a"),
    ("epochs: 2", "ep ochs: 2", "5: arg 'ep ochs' has to be"),
    ("epochs: 2", "device: cpu", "5: the device is chosen on the"),
    ("epochs: 2", "scaling: weak", "5: the scaling is declared by the"),
    ("args: {epochs: 2, seed: 1}", "args: 5", "5: 'args' has to be a mapping"),
    ("scaling: weak", "scaling: week", "6: scaling has to be strong or"),
    ("  layout: [1x1, 2+2, 2+3]\n", "", "7: 'matrix' needs the axis 'layout', for"),
    ("[1x1, 2+2, 2+3]", "[1x1, 12]", "8: layout 12 makes no sense"),
    ("[1x1, 2+2, 2+3]", "1x1", "8: axis 'layout' has to be a"),
    (
        "batch_size: [8, 16]",
        "batch_size: [8, {a: 1}]",
        "9: arg 'batch_size' has to be a",
    ),
    (", why: too large for the GPUs", "", "11: every skip says why: add 'why:"),
    ("when: cuda", "when: gpu", "11: 'when' has to be cpu or"),
    ("baseline: {layout: 1x1}", "baseline: 1x1", "12: 'baseline' has to be a mapping"),
    (
        "measure: total_seconds",
        "measure: accuracy",
        "13: measure 'accuracy' has to be a",
    ),
    ("repeat: 5", "repeat: 0", "14: 'repeat' has to be a whole"),
    ("repeat: 5", "repeat: '5'", "14: 'repeat' has to be a whole"),
    ("12.5", "0", "15: 'timeout_seconds' has to be a number"),
    ('  source: "a100-ddp, section MNIST"\n', "", "16: 'published' needs a 'source': the document"),
    ("hardware: 1x A100, total", "total", "19: the row needs its 'hardware', for"),
    ("hardware: 1x A100, total", "hardwar: 1x A100, total", "19: unknown key 'hardwar'; did you mean 'hardware'?"),
    ("total_seconds: 170.24", "total_second: 170.24", "19: unknown key 'total_second'; did you mean 'total_seconds'?"),
    ("total_seconds: 170.24", "total_seconds: fast", "19: 'total_seconds' has to be a number"),
    ("total_seconds: 170.24, ", "", "19: the row has no figure"),
    ("[2.0, 1.5]", "[2.0, x]", "20: 'train_loss' has to be a list"),
    ("best_accuracy: 0.98", "best_accuracy: 98", "20: 'best_accuracy' is a share from 0"),
    (FULL, "# nothing\n", "1: a definition is a mapping with"),
    ("toys.ok\nargs", "/train.sh\nargs", "4: program '/train.sh' has to be <family>.<program>,"),
    ("repeat: 5", "launcher: mpirun", "14: launcher has to be torchrun or"),
    ("repeat: 5", "data: a b", "14: data 'a b' has to be"),
    ("repeat: 5", "dialect: 3", "14: a dialect has to be a"),
    ("repeat: 5", "dialect: []", "14: 0 dialects; from 1 to 20"),
    ("repeat: 5", "dialect: [' ']", "14: a dialect has to be a"),
    ("repeat: 5", "program_args: {toy.ddp: 5}", "14: 'toy.ddp' has to be a mapping"),
    ("[1x1, 2+2, 2+3]", "[]", "8: axis 'layout' has to be a"),
    ("batch_size: [8, 16]", "device: [cpu]", "9: the device is chosen on the"),
    ("skip:\n", "skip:\n" + "  - {layout: 1x1, why: x}\n" * 100, "10: 'skip' has 101 entries; 100 are"),
    ("repeat: 5", "repeat: true", "14: 'repeat' has to be a whole"),
    ("repeat: 5", "repeat: 1001", "14: 'repeat' has to be a whole"),
    ("12.5", "1e9", "15: 'timeout_seconds' has to be a number"),
    ("repeat: 5", "patience_seconds: 0", "14: 'patience_seconds' has to be a number"),
    (FULL.partition("  rows:")[2], " []\n", "18: 'published' needs 'rows': a list of"),
]
"""What the JSON Schema refuses too."""
MEANINGS = [
    ("name: tiny", "name: tiny\nname: tiny", "3: duplicate key 'name', first in line"),
    ("name: tiny", "name: other", "2: the name 'other' has to be"),
    (
        "toys.ok\nargs",
        "toys.oh\nargs",
        "4: program 'toys.oh' does not exist (<project>/experiments/toys/oh.py); did you mean 'toys.ok'?",
    ),
    (
        "epochs: 2",
        "epochs: 99999999999999999999",
        "5: arg 'epochs' is too large: a",
    ),
    ("epochs: 2", "batch_size: 2", "5: 'batch_size' stands in args and in"),
    ("[1x1, 2+2, 2+3]", "[2x2, 2+2]", "8: layout 2x2 stands twice"),
    ("batch_size: [8, 16]", "batch_size: [8, 8]", "9: batch_size 8 stands twice"),
    (
        "{layout: 2+3, batch_size: 16, when",
        "{batchsize: 16, when",
        "11: 'batchsize' is no axis of the matrix; did you mean 'batch_size'?",
    ),
    ("{layout: 2+3, batch_size: 16, when", "{batch_size: 32, when", "11: batch_size 32 matches no cell"),
    ("{layout: 2+3, batch_size: 16, when: cuda, ", "{", "10: every cell is skipped"),
    ("baseline: {layout: 1x1}", "baseline: {layout: 1x4}", "12: layout '1x4' matches no cell; did you mean '1x1'?"),
    ("12.5", ".nan", "15: 'timeout_seconds' has to be a number"),
    ("{layout: 1x1, hardware", "{layout: 4x1, hardware", "19: layout '4x1' matches no cell; did you mean '1x1'?"),
    (FULL, "a:\n  - [", "2: not YAML"),
]


WRONG = [*SHAPES, *MEANINGS]


@pytest.mark.parametrize(("old", "new", "said"), WRONG, ids=[said.split(";")[0][:70] for _, _, said in WRONG])
def test_a_mistake_is_named_with_its_line_and_what_was_meant(project: Project, old: str, new: str, said: str) -> None:
    assert old in FULL
    text = FULL.replace(old, new, 1)
    assert complaint(project, text).startswith(said)
    if (old, new, said) in SHAPES:
        assert not jsonschema.Draft7Validator(schema()).is_valid(read(project.define(text)).values)


@pytest.mark.parametrize(
    ("axis", "said"),
    [
        ("program: [toys.ok, 3]", "6: program 3 has to be <family>.<program>, for example mnist.ddp"),
        ("program:\n    - toys.ok\n    - toys.no", "8: program 'toys.no' does not exist"),
        ("device: [cpu, cuda]", "6: the device is chosen on the command line"),
    ],
)
def test_an_axis_that_cannot_be_is_refused_at_its_line(project: Project, axis: str, said: str) -> None:
    plain = f"name: tiny\nsummary: s\nprogram: toys.ok\nscaling: strong\nmatrix:\n  {axis}\n  layout: [1x1]\n"
    assert complaint(project, plain).startswith(said)


ALWAYS = ("when: cuda, ", "")
NO_LAYOUT = ("{layout: 2+3, batch_size: 16, when: cuda,", "{layout: 2+3,")


@pytest.mark.parametrize(
    ("skip", "old", "new", "said"),
    [
        (ALWAYS, "layout: 2x2, batch_size: 8", "layout: 2+3, batch_size: 16", "20: the row matches no cell"),
        (NO_LAYOUT, "baseline: {layout: 1x1}", "baseline: {layout: 2+3}", "12: the baseline is skipped"),
    ],
)
def test_a_cell_that_is_always_skipped_can_be_named_nowhere(
    project: Project, skip: tuple[str, str], old: str, new: str, said: str
) -> None:
    assert complaint(project, FULL.replace(*skip).replace(old, new)).startswith(said)


def test_definitions_are_found_by_name_and_by_path(project: Project) -> None:
    path = project.root / "experiments" / "tiny.yaml"
    assert definition.find("tiny", project.root) == path
    assert definition.find(str(path), project.root) == path
    with pytest.raises(RequestError, match="no experiment 'tinny' in .*; did you mean 'tiny'"):
        definition.find("tinny", project.root)
    with pytest.raises(RequestError, match="no experiment"):
        definition.find("x" * 5000, project.root)
