"""A script that is run without a definition: `runner run train.py -- ARGS`."""

import json
import shlex
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from runner.core.yaml_reader import read
from runner.core.yaml_writer import to_yaml
from runner.definitions.program import Program
from runner.tools.init.proposal import of_line
from tests.support.projects import Project
from tests.support.repository import git
from tests.tools.init.conftest import Copy
from tests.tools.init.test_scripts import write


@pytest.fixture
def flat(copy: Copy) -> Project:
    return copy("flat")


@pytest.mark.slow
def test_it_leads_to_a_table_and_leaves_the_repository_as_it_was(flat: Project) -> None:
    ran = flat.runner("run", "main.py", "--layout", "1x1", "--repeat", "1", "--", "--epochs", "1")
    assert ran.code == 0, ran.snapshot
    assert "runner init main.py -- --epochs 1\n" in ran.stderr
    record = flat.record(*flat.runs("main"))
    assert (record["status"], record["launch"]["args"]) == ("completed", {"epochs": 1})
    assert git(flat.root, "status", "--porcelain", "--ignored=no") == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["main.py", "--layout", "1x2"], "main.py: --layout 1x2"),
        (["main.py", "--epochs", "1"], "No such option: --epochs"),
        (["main"], "no experiment 'main'"),
        (["train.ipynb"], "no Python script train.ipynb"),
        (["net", "--", "--epochs", "1"], "--epochs: net"),
    ],
)
def test_a_script_that_cannot_run_is_refused_in_one_line(flat: Project, words: list[str], says: str) -> None:
    assert flat.refused("run", *words).startswith(f"error: {says}")
    assert not flat.results.exists()


TRAINS = "import torch\n\nfor _ in range(3):\n    loss.backward()\n    optimizer.step()\n"
SPAWNS = TRAINS + 'subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "train.py"])\n'


@pytest.mark.parametrize(
    ("words", "starts", "within", "keeps"),
    [
        (["package"], "package/__main__.py", "", "package/__main__.py"),
        (["scripts"], "fit.py", "mine/scripts", "fit.py"),
        (["../outside/fit.py"], "fit.py", "outside", "fit.py"),
        (["place.py", "--", "3", "data/"], "place.py 3 data/", "", "place.py -- 3 data/"),
        (["launch.py"], "-m trainkit.alone launch.py", "", "launch.py"),  # starts torchrun itself
    ],
)
def test_what_can_be_run_is_run_where_it_is(
    folder: Project, words: list[str], starts: str, within: str, keeps: str
) -> None:
    names = ("mine/package/__main__.py", "mine/scripts/fit.py", "mine/place.py", "outside/fit.py")
    write(folder.root, {**dict.fromkeys(names, TRAINS), "mine/launch.py": SPAWNS})
    done = Project(folder.root / "mine", folder.env).runner("run", "--dry-run", "--repeat", "1", *words)
    assert done.code == 0, done.snapshot
    assert json.loads(done.stdout)["nodes"][0]["argv"][-len(starts.split()) :] == starts.split()
    place = f"cd {shlex.quote(str(folder.root / within))} && " if within else ""
    assert done.stderr.endswith(f" {place}runner init {keeps}\n")


WORD = st.one_of(
    st.sampled_from(["--epochs", "--lr=3", "-b4", "--amp", "model=big", "+new=3", "~db", "--", "--device", "--a b"]),
    st.sampled_from(["null", "~", "true", "007", "12", "1_000", "0x10", "1.50", "1e-3", "-1e-3", " x ", "'q'", ""]),
    st.text(st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp"))),
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(WORD, max_size=6))
@example(["--tag", "9223372036854775808"])  # no number of a record
@example(["--tag", "a", "--lr", "3", "--tag", "b"])
def test_a_script_gets_the_words_that_were_typed_also_from_the_definition(tmp_path: Path, line: list[str]) -> None:
    program = Program("train.py", Path("train.py"), files=("train.py",))
    args = of_line(program, line)
    assert program.argv(args) == line
    (tmp_path / "args.yaml").write_text(to_yaml({"args": args}), "utf-8")
    assert program.argv(read(tmp_path / "args.yaml").values["args"]) == line
