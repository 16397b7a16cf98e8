"""A script that is run without a definition: `runner run train.py -- ARGS`."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runner.core.errors import RequestError
from runner.definitions.args import NAME
from runner.definitions.options import Interface, Option, read_interface
from runner.definitions.program import Program
from runner.tools.init.arguments import of_line
from runner.tools.init.readers.styles import HYDRA
from tests.support.projects import Project
from tests.support.repository import git
from tests.tools.init.conftest import Copy

NEEDS_A_GPU = """
import argparse
import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="nccl")
args = parser.parse_args()
dist.init_process_group(args.backend)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
model(torch.ones(4, 2)).sum().backward()
"""

LIKE_HYDRA = """
import os, sys, torch

if "HYDRA_FULL_ERROR" in os.environ:
    raise KeyError("epoch")
sys.exit("Could not set it.\\nSet the environment variable HYDRA_FULL_ERROR=1")
"""


@pytest.fixture
def flat(copy: Copy) -> Project:
    return copy("flat")


@pytest.mark.slow
def test_it_leads_to_a_table_and_leaves_the_repository_as_it_was(flat: Project) -> None:
    ran = flat.runner("run", "main.py", "--layout", "1x1", "--repeat", "1", "--", "--epochs", "1")
    assert ran.code == 0, ran.snapshot
    said = [line for line in ran.stderr.splitlines() if line.startswith(("script:", "output:", "definition: timed"))]
    assert len(said) == 3
    assert said[-1].endswith("; to keep it: runner init main.py --set epochs=1")
    (path,) = flat.runs("main")
    record = flat.record(path)
    assert (record["status"], record["launch"]["args"]) == ("completed", {"epochs": 1})
    assert list(record["launch"]["dialects"]) == ["pytorch-mnist"]
    assert record["launch"]["scaling"] is None  # nobody has said it
    assert "| 1x1 | 1 |" in flat.runner("summarize", "results/").stdout
    assert git(flat.root, "status", "--porcelain", "--ignored=no") == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["main.py", "--layout", "1x2"], "main.py: --layout 1x2: add 1x2 once the script calls init_process_group()"),
        (["main.py", "--", "--epoch", "1"], "program main.py takes no arg 'epoch'; did you mean 'epochs'?"),
        (["main.py", "--", "--epochs"], "argument --epochs of main.py has no value: write --epochs=VALUE"),
        (["main.py", "--", "7"], "argument 7: the source of main.py does not declare it: write --name value"),
        (
            ["main.py", "--", "--device=cpu"],
            "argument --device=cpu: the device is chosen on the command line, by --device",
        ),
        (["main.py", "--epochs", "1"], "No such option: --epochs; see runner run --help; the arguments of main.py"),
        (["absent.py"], "no script absent.py here"),
        (["main.py", "--scaling", "week"], "--scaling week: there is strong and weak"),
        (["main"], "no experiment 'main', for this folder is in no project: runner run train.py runs a script"),
        (["README.md"], "README.md is no Python file"),
        (["train.ipynb"], "train.ipynb is a notebook, and torchrun starts scripts: save it as one with `jupyter "),
        (["net", "--", "--epochs", "1"], "--epochs: net is no script; give arguments as --set name=value"),
    ],
    ids=" ".join,
)
def test_what_it_cannot_run_is_refused_in_one_line(flat: Project, words: list[str], says: str) -> None:
    done = flat.runner("run", *words)
    assert (done.code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {says}")
    assert not flat.results.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (NEEDS_A_GPU, "; try runner run train.py --set backend=gloo"),
        (
            "import torch\n\ndata = []\nassert data\nloss.backward()\n",
            "train.py failed in its first run: AssertionError at train.py:4: assert data; ",
        ),
        ("import torch\ninput()\n", "; it asks for input at train.py:2: input(), and a run has no terminal"),
        ("import sys\nint(sys.stdin.readline())\n", "; it asks for input at train.py:2: int(sys.stdin.readline())"),
        (
            "import torch\n\ntorch.cuda.set_device(0)\n",
            "; it takes a GPU at train.py:3: torch.cuda.set_device(0)",
        ),
        (
            "import torch\ntorch.new_thing()\n",
            " has no torch.new_thing: another version may, or it is a slip",
        ),
        (
            "import torch\nraise RuntimeError('wandb: no API key configured')\n",
            "; write WANDB_MODE=offline before the command",
        ),
        (
            LIKE_HYDRA,
            "train.py failed in its first run: KeyError: 'epoch'; ",
        ),
    ],
    ids=["nccl", "an exception without a text", "input", "stdin", "a GPU", "another torch", "wandb", "Hydra"],
)
def test_a_script_that_fails_here_is_one_line_with_the_way_out(folder: Project, text: str, says: str) -> None:
    (folder.root / "train.py").write_text(text)
    done = folder.runner("run", "train.py")
    assert done.code == 2
    assert all(part in done.stderr.splitlines()[-1] for part in says.split("...")), done.snapshot


@pytest.mark.slow
def test_a_script_that_reads_what_lies_beside_it_is_to_be_called_there(folder: Project) -> None:
    script = folder.root / "lm" / "train.py"
    (script.parent / "data").mkdir(parents=True)
    script.write_text("import torch\nopen('data/train.txt')\n")
    done = folder.runner("run", "lm/train.py")
    assert done.code == 2
    said = done.stderr.splitlines()[-1]
    assert "; 'data/train.txt' is beside the script: call the runner in " in said
    assert said.endswith("/lm")


@pytest.mark.slow
def test_a_module_above_the_script_s_project_is_named_with_the_variable_that_brings_it(folder: Project) -> None:
    script = folder.root / "projects" / "adder" / "train.py"
    (folder.root / "mingpt").mkdir()
    (folder.root / "mingpt" / "__init__.py").write_text("")
    script.parent.mkdir(parents=True)
    script.write_text("import torch, mingpt\n" + "loss.backward()\n")
    done = replace(folder, root=script.parent).runner("run", "train.py")
    assert done.code == 2
    assert f": write PYTHONPATH={shlex.quote(str(folder.root))} before the command" in done.stderr


TRAINS = "import torch\n\nfor _ in range(3):\n    loss.backward()\n    optimizer.step()\n"
SPAWNS = TRAINS + 'subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "train.py"])\n'


@pytest.mark.parametrize(
    ("words", "starts", "within", "keeps"),
    [
        (["package"], "package/__main__.py", "", "package/__main__.py"),
        (["scripts"], "fit.py", "mine/scripts", "fit.py"),
        (["../outside/fit.py"], "fit.py", "outside", "fit.py"),
        (["place.py", "--", "3", "data/"], "place.py 3 data/", "", "place.py --set argv1=3 --set argv2=data/"),
        (["launch.py"], "-m trainkit.alone launch.py", "", "launch.py"),
        (["stdin.py"], "stdin.py", "", "stdin.py"),
    ],
    ids=["a package", "a folder", "outside", "by place", "starts torchrun itself", "reads stdin"],
)
def test_what_can_be_run_is_run_where_it_is(
    folder: Project, words: list[str], starts: str, within: str, keeps: str
) -> None:
    scripts = {
        "mine/package/__main__.py": TRAINS,
        "mine/scripts/fit.py": TRAINS,
        "mine/launch.py": SPAWNS,
        "mine/stdin.py": "import sys\nfor line in sys.stdin: pass\n" + TRAINS,
        "mine/place.py": "import sys\n_, lines, path = sys.argv\n" + TRAINS,
        "outside/fit.py": TRAINS,
    }
    for name, text in scripts.items():
        (folder.root / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.root / name).write_text(text)
    done = Project(folder.root / "mine", folder.env).runner("run", "--dry-run", "--repeat", "1", *words)
    assert done.code == 0, done.snapshot
    assert json.loads(done.stdout)["nodes"][0]["argv"][-len(starts.split()) :] == starts.split()
    place = f"cd {shlex.quote(str(folder.root / within))} && " if within else ""
    assert done.stderr.endswith(f"; to keep it: {place}runner init {keeps}\n")
    assert ("note: it reads sys.stdin, which is empty in a run" in done.stderr) == (words == ["stdin.py"])


OPTIONS = {
    "epochs": Option("--epochs", "int"),
    "rate": Option("--rate", "float"),
    "amp": Option("--amp", "flag"),
    "shuffle": Option("--shuffle", "switch"),
    "name": Option("--name"),
    "tag": Option("--tag", many="repeat"),
    "sizes": Option("--sizes", many="words"),
    "mode": Option("mode"),
}
TEXT = st.one_of(
    st.sampled_from(["null", "~", "true", "007", "1_000", "0x10", "1.50", "1e-3", " x ", "'q'", "a=b", "[1,2]", ""]),
    st.text(st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp"))),
).filter(lambda text: text.isprintable() and not text.startswith("-"))
LINE = st.lists(
    st.one_of(
        st.integers(-9, 99).map(lambda value: ["--epochs", str(value)] if value >= 0 else [f"--epochs={value}"]),
        st.just(["--amp"]),
        st.sampled_from([["--shuffle"], ["--no-shuffle"]]),
        TEXT.map(lambda text: ["--name", text]),
        st.lists(TEXT, min_size=1, max_size=3).map(lambda texts: [word for text in texts for word in ("--tag", text)]),
        st.lists(TEXT, min_size=1, max_size=3).map(lambda texts: ["--sizes", *texts]),
    ),
    unique_by=lambda words: words[0].partition("=")[0].replace("--no-", "--"),
).map(lambda parts: [word for words in parts for word in words])


@settings(max_examples=50)
@given(LINE)
@example(["--tag", "9223372036854775808"])  # no number of a record
def test_a_script_gets_the_words_that_were_typed(line: list[str]) -> None:
    program = Program("train.py", Path("train.py"), Interface("argparse", OPTIONS))
    assert program.argv(of_line(program, line)) == line


@pytest.mark.parametrize(
    "line",
    [["+new=3", "--multirun"], ["-m", "epochs=3"], ["--config-name=other", "~db"], ["hydra/sweeper=optuna"]],
    ids=" ".join,
)
def test_what_hydra_takes_beside_its_settings_is_passed_on_as_it_was_typed(line: list[str]) -> None:
    program = Program("train.py", Path("train.py"), Interface("hydra", is_open=True, style=HYDRA))
    args = of_line(program, line)
    assert program.argv(args) == sorted(line, key=lambda word: not word.startswith("-"))
    assert all(re.fullmatch(NAME, key) for key in args)


def test_a_flag_that_no_source_declares_is_passed_on() -> None:
    program = Program("train.py", Path("train.py"), Interface("plain", is_open=True))
    assert program.argv(of_line(program, ["--fast", "--lr=3"])) == ["--fast", "--lr", "3"]


def test_the_last_of_several_values_counts_but_for_lists_and_what_is_no_number_is_refused() -> None:
    program = Program("train.py", Path("train.py"), Interface("argparse", OPTIONS))
    args = of_line(program, ["--name", "a", "eval", "--name=b", "--rate", "-1e-3", "--tag", "x y", "--tag=z"])
    assert args == {"name": "b", "mode": "eval", "rate": -0.001, "tag": "'x y' z"}
    with pytest.raises(RequestError, match="is a whole number, not 'x'"):
        program.check("epochs", of_line(program, ["--epochs", "x"])["epochs"])


@pytest.mark.parametrize("line", [["-b4"], ["-b", "4"], ["-b=4"], ["--batch", "4"], ["--batch-size=4"]], ids=" ".join)
def test_an_argument_is_known_by_all_of_its_names(tmp_path: Path, line: list[str]) -> None:
    path = tmp_path / "train.py"
    words = "'-b', '--batch-size', '--batch', type=int"
    path.write_text(f"import argparse\nargparse.ArgumentParser().add_argument({words})\n")
    assert of_line(Program("train.py", path, read_interface(tmp_path, path)), line) == {"batch_size": 4}
