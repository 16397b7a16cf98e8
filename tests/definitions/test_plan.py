"""An experiment becomes cells, skipped cells, and repeats in order."""

from typing import Any

import pytest

from runner.core.errors import RequestError
from runner.definitions import experiment as definition
from runner.definitions.choices import Selection
from runner.definitions.plan import Plan, make_plan
from tests.support.projects import Project

TEXT = """\
name: tiny
summary: s
program: toys.ok
args: {epochs: 2, batch_size: 8}
scaling: weak
matrix:
  layout: [1x1, 1x2, 2x2]
  seed: [1, 2]
skip:
  - {layout: 2x2, when: cpu, why: needs GPUs}
  - {layout: 1x2, seed: 2, why: not of interest}
repeat: 3
"""


def plan(project: Project, text: str = TEXT, **choices: Any) -> Plan:
    tiny = definition.load(project.define(text), project.root)
    return make_plan(tiny, Selection(**choices))


ALL = ["1x1 seed=1", "1x1 seed=2", "1x2 seed=1"]


@pytest.mark.parametrize(
    ("only", "cells"),
    [
        ([], ALL),
        (["layout=1x1"], ALL[:2]),
        (["seed=2", "layout=1x1,1x2"], ALL[1:2]),
        (["layout=1x1", "layout=1x2"], ALL),
    ],
)
def test_the_cells_are_the_matrix_less_what_is_skipped_on_the_device_or_not_chosen(
    project: Project, only: list[str], cells: list[str]
) -> None:
    made = plan(project, only=only)
    assert [str(cell) for cell in made.cells] == cells
    if not only:
        gpus = "needs GPUs"
        assert [*made.skipped] == [("1x2 seed=2", "not of interest"), ("2x2 seed=1", gpus), ("2x2 seed=2", gpus)]
        assert len(plan(project, device="cuda").cells) == 5


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"only": ["layout"]}, "--only layout: .* --only layout="),
        ({"only": ["layouts=1x1"]}, "--only layouts=1x1: .*; did you mean 'layout'"),
        ({"only": ["layout=4x4"]}, "--only layout=4x4: .* has no layout '4x4'"),
        ({"layouts": ["0x2"]}, "--layout: layout '0x2'"),
        ({"changes": ["epochs"]}, "--set epochs: .* --set epochs="),
        ({"changes": ["a b=1"]}, "--set a b=1: arg 'a b'"),
        ({"changes": ["seed=3"]}, "--set seed=3: .* --only seed="),
        ({"changes": ["device=cpu"]}, "--set device=cpu: "),
        ({"changes": ["epochs=\udcff"]}, "--set epochs=.udcff: "),
        ({"changes": ["epochs=" + "9" * 20]}, "--set epochs=9*: "),
        ({"only": ["layout=2x2"]}, "/tiny.yaml: no cell is left to run: needs GPUs"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(project: Project, choices: dict[str, Any], said: str) -> None:
    with pytest.raises(RequestError, match=said) as caught:
        plan(project, **choices)
    assert "\n" not in str(caught.value)


def test_set_gives_an_arg_another_value(project: Project) -> None:
    made = plan(project, changes=["epochs=1", "batch-size=1e-3", "verbose=true"])
    assert made.cells[0].args == {"epochs": 1, "batch_size": 0.001, "seed": 1, "verbose": True}
    for text, value in {"a b: c": "a b: c", "": "", "[1]": "[1]", "null": None}.items():
        assert plan(project, changes=[f"epochs={text}"]).cells[0].args["epochs"] == value


def test_args_and_axes_of_a_script_are_spelt_as_it_spells_them(project: Project) -> None:
    (project.root / "train.py").touch()
    matrix = {"layout": ["1x1"], "model=": ["big", "small"]}
    path = project.define(program="train.py", args={"optimizer.lr=": 0.1, "batch-size": 8}, matrix=matrix)
    choices = Selection(only=["model==big"], changes=["optimizer.lr==1e-3", "batch-size=4"])
    (cell,) = make_plan(definition.load(path, project.root), choices).cells
    assert cell.command() == "torchrun train.py optimizer.lr=0.001 --batch-size 4 model=big"


def test_a_probe_shows_what_the_program_says_of_its_arguments_once(project: Project) -> None:
    project.define(args={"epochs": 2})
    shown = project.runner("plan", "tiny", "--probe").stdout
    assert shown.count("\ntoys.ok --help:\nusage: ok.py ") == 1
    assert "--batch-size BATCH_SIZE" in shown
    project.program("toys.ok", "raise ValueError('no help')\n")
    done = project.runner("plan", "tiny", "--probe")
    assert (done.code, done.stderr.splitlines()[-1]) == (2, "error: toys.ok --help: exit code 1: ValueError: no help")


def test_programs_may_be_an_axis_and_one_that_wants_to_know_scaling_and_device_is_told(project: Project) -> None:
    project.program("toys.asks", "parser.add_argument('--scaling')\nparser.add_argument('--device')\n")
    path = project.define(matrix={"layout": ["1x1"], "program": ["toys.ok", "toys.asks"]}, args={"epochs": 1})
    for device in ("cpu", "cuda"):
        cells = make_plan(definition.load(path, project.root), Selection(device=device)).cells
        assert [cell.args for cell in cells] == [{"epochs": 1}, {"epochs": 1, "scaling": "strong", "device": device}]


def test_the_repeats_of_every_cell_go_forwards_and_backwards_in_turn(project: Project) -> None:
    path = project.define(matrix={"layout": ["1x1", "2+3"], "seed": [5, -1]}, repeat=3)
    cells = ["1x1 seed=5", "1x1 seed=-1", "2+3 seed=5", "2+3 seed=-1"]
    for repeat in (None, 2):
        made = make_plan(definition.load(path, project.root), Selection(repeat=repeat))
        assert [str(run.cell) for run in made.runs] == cells + cells[::-1] + ([] if repeat else cells)
        assert (made.runs[4].repeat, made.runs[4].repeats) == (2, repeat or 3)
