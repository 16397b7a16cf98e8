"""A definition from a stranger: whatever it is, it is refused in one line, soon and within bounds."""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from runner.core.errors import RequestError
from runner.definitions import experiment, program
from runner.definitions.axes import MOST_CELLS
from runner.definitions.plan import MOST_RUNS, make_plan
from tests.support.projects import Project

OK = """
parser.add_argument("--lr", type=float)
parser.add_argument("--steps", type=int)
parser.add_argument("--note")
"""


@pytest.fixture(autouse=True)
def _program(project: Project) -> None:
    project.program("toys.ok", OK)


def refusal(path: Path, project: Project) -> str:
    with pytest.raises(RequestError) as refused:
        experiment.load(path, project.root)
    said = str(refused.value)
    assert said.isprintable()
    assert said.startswith(str(path))
    return said.removeprefix(str(path))


def test_a_program_that_is_no_regular_file_is_refused_at_once(project: Project) -> None:
    path, source = project.define(), project.root / "experiments" / "toys" / "ok.py"
    source.unlink()
    os.mkfifo(source)
    assert refusal(path, project).endswith(f"{source}: cannot be read: it is no regular file")
    source.unlink()
    source.symlink_to("/dev/zero")
    assert refusal(path, project).endswith(f"{source}: cannot be read: it is a link, and links are not followed")
    assert program.names(project.root) == []


@pytest.mark.parametrize("size", [10**6, 10**12])
def test_a_matrix_that_is_too_large_is_refused_before_a_cell_is_built(project: Project, size: int) -> None:
    axes = {f"a{number}": list(range(1000)) for number in range(round(math.log(size, 1000)))}
    axes |= {"more": list(range(size // 1000 ** len(axes)))} if size > 1000 ** len(axes) else {}
    path = project.define(matrix={"layout": ["1x1"], **axes})
    said = refusal(path, project)
    assert f"the matrix has {size:,} cells (" in said
    assert f"{MOST_CELLS:,} are the most: split the experiment" in said


def test_other_layouts_and_repeats_are_bounded_too(project: Project) -> None:
    tiny = experiment.load(project.define(matrix={"layout": ["1x1"], "steps": list(range(5000))}), project.root)
    with pytest.raises(RequestError, match=r"^--layout: the matrix has 15,000 cells"):
        make_plan(tiny, device="cpu", layouts=["1x1,1x2,1x3"])
    with pytest.raises(RequestError, match=f"5,000 cells x 1,000 repeats; {MOST_RUNS:,} runs are the most"):
        make_plan(tiny, device="cpu", repeat=1000)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [" + "1, " * 60_000 + "1]", "more than 12,000 keys and values"),
        ("a: 0x" + "f" * 100_000, "a number of 100,002 letters"),
        ("a: &x [1]\nb: [" + "*x, " * 40_000 + "]", "aliases are refused"),
        ("? " * 80_000, "a key has to be a word"),
        ('a: "' + "\\x41" * 45_000, "not YAML"),
    ],
    ids=lambda value: value[:12],
)
def test_a_yaml_file_that_is_too_large_is_refused(project: Project, text: str, said: str) -> None:
    path = project.define(text)
    assert said in refusal(path, project)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"summary": "x" * 2_000}, "'summary' has 2,000 characters; 1,000 are the most"),
        ({"program": "a." + "b" * 5_000}, "'program' has 5,002 characters; 100 are the most"),
        ({"args": {"note": "x" * 20_000}}, "arg 'note' is too long: a text has 10,000 characters at most"),
        ({"matrix": {"layout": ["1x1"], **{f"a{number}": [1] for number in range(30)}}}, "31 axes; 20 are the most"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_every_value_is_bounded(project: Project, changes: dict[str, Any], said: str) -> None:
    assert said in refusal(project.define(**changes), project)


@pytest.mark.parametrize("way", ["axis", "set"])
def test_nan_and_infinity_each_keep_an_identity_of_their_own(project: Project, way: str) -> None:
    words = [".nan", ".inf", "-.inf"]
    plans = []
    for word in words:
        matrix = f"{{layout: [1x1], lr: [{word}]}}" if way == "axis" else "{layout: [1x1]}"
        args = "" if way == "axis" else f"args: {{lr: {word}}}\n"
        path = project.define(f"name: tiny\nsummary: s\nprogram: toys.ok\nscaling: weak\n{args}matrix: {matrix}\n")
        tiny = experiment.load(path, project.root)
        assert json.loads(json.dumps(tiny.resolved(), allow_nan=False)) == tiny.resolved()
        plans.append((tiny.sha256(), make_plan(tiny, device="cpu").cells[0].command()))
    assert len({sha256 for sha256, _ in plans}) == 3
    assert [command.partition("ok ")[2] for _, command in plans] == ["--lr nan", "--lr inf", "--lr=-inf"]


def test_nan_on_an_axis_is_chosen_and_skipped_and_stands_once(project: Project) -> None:
    head = "name: tiny\nsummary: s\nprogram: toys.ok\nscaling: weak\nmatrix: {layout: [1x1], lr: [.nan, .inf, 1]}\n"
    tiny = experiment.load(project.define(head), project.root)
    assert [str(cell) for cell in make_plan(tiny, device="cpu", only=["lr=.nan"]).cells] == ["1x1 lr=nan"]
    assert [str(cell) for cell in make_plan(tiny, device="cpu", only=["lr=.inf,1"]).cells] == ["1x1 lr=inf", "1x1 lr=1"]
    tiny = experiment.load(project.define(head + "skip: [{lr: .nan, why: no number}]\n"), project.root)
    assert [str(cell) for cell in make_plan(tiny, device="cpu").cells] == ["1x1 lr=inf", "1x1 lr=1"]
    path = project.define(head.replace("[.nan, .inf, 1]", "[.nan, 1, .nan]"))
    assert refusal(path, project) == ":5: lr nan stands twice"


def test_a_name_that_stands_twice_is_refused_with_both_places(project: Project) -> None:
    flat = project.define()
    twin = project.root / "experiments" / "toys" / "tiny.yaml"
    twin.write_bytes(flat.read_bytes())
    for path in (flat, twin):
        with pytest.raises(RequestError) as refused:
            experiment.load(path, project.root)
        places = "experiments/tiny.yaml and experiments/toys/tiny.yaml"
        assert str(refused.value) == f"the name 'tiny' stands twice: {places}; rename one of them"
