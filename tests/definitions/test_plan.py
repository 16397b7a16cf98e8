"""Experiment -> Runs: cells, what is left out, and the order of the repeats."""

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


def test_the_cells_are_the_matrix_less_what_is_skipped_on_the_device(project: Project) -> None:
    made = plan(project)
    assert [str(cell) for cell in made.cells] == ["1x1 seed=1", "1x1 seed=2", "1x2 seed=1"]
    assert [*made.skipped] == [
        ("1x2 seed=2", "not of interest"),
        ("2x2 seed=1", "needs GPUs"),
        ("2x2 seed=2", "needs GPUs"),
    ]
    assert len(plan(project, device="cuda").cells) == 5


@pytest.mark.parametrize(
    ("only", "cells"),
    [
        (["layout=1x1"], ["1x1 seed=1", "1x1 seed=2"]),
        (["seed=2", "layout=1x1,1x2"], ["1x1 seed=2"]),
        (["layout=1x1", "layout=1x2"], ["1x1 seed=1", "1x1 seed=2", "1x2 seed=1"]),
    ],
)
def test_only_chooses_cells(project: Project, only: list[str], cells: list[str]) -> None:
    assert [str(cell) for cell in plan(project, only=only).cells] == cells


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"only": ["layout"]}, "--only layout: write axis=value, for example --only"),
        ({"only": ["layouts=1x1"]}, "--only layouts=1x1: 'layouts' is no axis of tiny; did you mean 'layout'?"),
        ({"only": ["layout=4x4"]}, "--only layout=4x4: tiny has no layout '4x4';"),
        ({"changes": ["epochs"]}, "--set epochs: write arg=value, for example --set"),
        ({"changes": ["a b=1"]}, "--set a b=1: arg 'a b' has"),
        ({"changes": ["seed=3"]}, "--set seed=3: 'seed' is an axis of"),
        ({"changes": ["device=cpu"]}, "--set device=cpu: the device is chosen on"),
        ({"changes": ["epochs=\udcff"]}, "--set epochs=\\udcff: the value has letters that cannot be printed"),
        ({"changes": ["epochs=9" + "9" * 19]}, "--set epochs=99999999999999999999: is unfit"),
        ({"only": ["layout=2x2"]}, "<path>: no cell is left to run:"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(project: Project, choices: dict[str, Any], said: str) -> None:
    with pytest.raises(RequestError) as caught:
        plan(project, **choices)
    path = str(project.root / "experiments" / "tiny.yaml")
    assert str(caught.value).replace(path, "<path>").startswith(said)
    assert "\n" not in str(caught.value)


def test_set_gives_an_arg_another_value(project: Project) -> None:
    made = plan(project, changes=["epochs=1", "batch-size=1e-3", "verbose=true"])
    assert made.cells[0].args == {"epochs": 1, "batch_size": 0.001, "seed": 1, "verbose": True}
    assert plan(project, changes=["epochs=a b: c"]).cells[0].args["epochs"] == "a b: c"
    assert plan(project, changes=["epochs="]).cells[0].args["epochs"] == ""
    assert plan(project, changes=["epochs=[1]"]).cells[0].args["epochs"] == "[1]"
    assert plan(project, changes=["epochs=null"]).cells[0].args["epochs"] is None


def test_args_and_axes_of_a_script_are_spelt_as_it_spells_them(project: Project) -> None:
    (project.root / "train.py").write_text("import torch\n")
    matrix = {"layout": ["1x1"], "model=": ["big", "small"]}
    path = project.define(program="train.py", args={"optimizer.lr=": 0.1, "batch-size": 8}, matrix=matrix)
    experiment = definition.load(path, project.root)
    made = make_plan(experiment, Selection(only=["model==big"], changes=["optimizer.lr==1e-3", "batch-size=4"]))
    (cell,) = made.cells
    assert cell.command() == "torchrun train.py optimizer.lr=0.001 --batch-size 4 model=big"


def test_a_probe_shows_what_the_program_says_of_its_arguments_once(project: Project) -> None:
    project.define(args={"epochs": 2})
    done = project.runner("plan", "tiny", "--probe")
    assert done.code == 0, done.snapshot
    assert done.stdout.count("\ntoys.ok --help:\nusage: ok.py ") == 1
    assert "--batch-size BATCH_SIZE" in done.stdout
    project.program("toys.ok", "import argparse\nraise ValueError('no help')\n")
    done = project.runner("plan", "tiny", "--probe")
    assert done.code == 2
    assert done.stderr.endswith("error: toys.ok --help: exit code 1: ValueError: no help\n")


def test_programs_may_be_an_axis_and_one_that_wants_to_know_scaling_and_device_is_told(project: Project) -> None:
    source = "parser.add_argument('--scaling')\nparser.add_argument('--device')\nparser.add_argument('--epochs')\n"
    project.program("toys.asks", source)
    path = project.define(matrix={"layout": ["1x1"], "program": ["toys.ok", "toys.asks"]}, args={"epochs": 1})
    for device in ("cpu", "cuda"):
        cells = make_plan(definition.load(path, project.root), Selection(device=device)).cells
        assert [cell.program.name for cell in cells] == ["toys.ok", "toys.asks"]
        assert [cell.args for cell in cells] == [{"epochs": 1}, {"epochs": 1, "scaling": "strong", "device": device}]


def test_the_repeats_of_every_cell_go_forwards_and_backwards_in_turn(project: Project) -> None:
    path = project.define(matrix={"layout": ["1x1", "2+3"], "seed": [5, -1]}, repeat=3)
    for repeat in (None, 2):
        made = make_plan(definition.load(path, project.root), Selection(repeat=repeat))
        cells = ["1x1 seed=5", "1x1 seed=-1", "2+3 seed=5", "2+3 seed=-1"]
        turns = [(1, cells), (2, cells[::-1]), (3, cells)][:repeat]
        expected = [(cell, number, repeat or 3) for number, turn in turns for cell in turn]
        assert [(str(run.cell), run.repeat, run.repeats) for run in made.runs] == expected
