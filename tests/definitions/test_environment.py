"""Environment variables: of a definition, an axis and the command line; recorded, compared, and refused."""

from typing import Any

import pytest
from msgspec import structs

from runner.core.errors import RequestError
from runner.core.secrets import MASK
from runner.definitions import experiment as definition
from runner.definitions.choices import Selection
from runner.definitions.environment import read_words, values_of, variables_of
from runner.definitions.plan import make_plan
from runner.definitions.rerun import run_of
from runner.records.folder import RunFolder
from runner.targets.torchrun import node_environment
from tests.support.projects import Project

PRINTS = """
import os
from trainkit import running

with running() as run:
    told = [os.environ.get(name, "") for name in ("NCCL_ALGO", "MY_FLAG", "HF_TOKEN")]
    print("told", *told, flush=True)
    run.report(train_seconds=1.0, length=len(told[2]))
"""


@pytest.mark.parametrize(
    ("env", "word"),
    [
        ({"NCCL_NCHANNELS": 4}, "NCCL_NCHANNELS"),
        ({"NCCL_ALGO": ["Ring"]}, "NCCL_ALGO"),
        ({"A=B": "x"}, "A=B"),
        ({"PATH": "/bin"}, "launcher"),
        ({"RANK": "0"}, "launcher"),
        ({"PET_NNODES": "2"}, "launcher"),
        ({"HF_TOKEN": "hf_0123456789"}, "secret"),
        ("NCCL_ALGO=Ring", "env"),
    ],
)
def test_what_is_no_variable_is_refused_with_its_place(project: Project, env: Any, word: str) -> None:
    path = project.define(env=env)
    with pytest.raises(RequestError) as caught:
        definition.load(path, project.root)
    assert word in str(caught.value)
    assert str(caught.value).startswith(f"{path}:")
    assert "hf_0123456789" not in str(caught.value)


@pytest.mark.parametrize("values", [[1, 2], ["Ring", None], ["Ring", "hf\x1b"], ["Ring", MASK]])
def test_an_axis_of_a_variable_has_texts(project: Project, values: list[Any]) -> None:
    path = project.define(matrix={"layout": ["1x1"], "env.NCCL_ALGO": values})
    with pytest.raises(RequestError, match=r"NCCL_ALGO"):
        definition.load(path, project.root)


def test_an_axis_is_a_variable_and_no_argument(project: Project) -> None:
    path = project.define(matrix={"layout": ["1x1"], "env.NCCL_ALGO": ["Ring", "Tree"]}, env={"NCCL_DEBUG": "WARN"})
    plan = make_plan(definition.load(path, project.root), Selection(variables=["MY_FLAG=a b"], repeat=1))
    assert [variables_of(cell.args) for cell in plan.cells] == [
        {"NCCL_DEBUG": "WARN", "NCCL_ALGO": "Ring", "MY_FLAG": "a b"},
        {"NCCL_DEBUG": "WARN", "NCCL_ALGO": "Tree", "MY_FLAG": "a b"},
    ]
    assert [cell.command().partition("torchrun")[0] for cell in plan.cells] == [
        "NCCL_DEBUG=WARN NCCL_ALGO=Ring MY_FLAG='a b' ",
        "NCCL_DEBUG=WARN NCCL_ALGO=Tree MY_FLAG='a b' ",
    ]
    assert not any("env." in cell.command() for cell in plan.cells)
    with pytest.raises(RequestError, match="--only"):
        make_plan(definition.load(path, project.root), Selection(variables=["NCCL_ALGO=Tree"]))


def test_the_threads_of_a_process_may_be_a_variable(project: Project) -> None:
    path = project.define(matrix={"layout": ["1x2"], "env.OMP_NUM_THREADS": ["1", "3"]})
    one, three = make_plan(definition.load(path, project.root), Selection()).cells
    assert (one.threads_per_process, three.threads_per_process) == (1, 3)
    assert [node_environment(cell, "cpu")["OMP_NUM_THREADS"] for cell in (one, three)] == ["1", "3"]


def test_a_secret_of_the_shell_is_named_and_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789")
    monkeypatch.setenv("DEPLOY_PRIVATE_KEY", "several\nlines of it")
    monkeypatch.setenv("HEADER", "Bearer hf_0123456789")
    assert read_words(["DEPLOY_PRIVATE_KEY", "HEADER"]) == {"env.DEPLOY_PRIVATE_KEY": MASK, "env.HEADER": MASK}
    with pytest.raises(RequestError, match="masked"):
        read_words([f"MY_FLAG={MASK}"])
    monkeypatch.setenv("MY_FLAG", "on")
    read = read_words(["HF_TOKEN", "MY_FLAG"])
    assert read == {"env.HF_TOKEN": MASK, "env.MY_FLAG": "on"}
    assert values_of(variables_of(read)) == {"HF_TOKEN": "hf_0123456789", "MY_FLAG": "on"}
    monkeypatch.delenv("HF_TOKEN")
    for lacking in (lambda: read_words(["HF_TOKEN"]), lambda: values_of({"HF_TOKEN": MASK})):
        with pytest.raises(RequestError, match="HF_TOKEN"):
            lacking()


def test_a_record_with_a_variable_of_the_launcher_is_not_run_again(finished: Project) -> None:
    launch = RunFolder(finished.runs()[0]).launch()
    assert run_of(launch, finished.root).cell.args == launch.args
    for variables in ({"env.RANK": "1"}, {"env.HF_TOKEN": "hf_0123456789"}):
        with pytest.raises(RequestError, match="RANK|secret"):
            run_of(structs.replace(launch, args={**launch.args, **variables}), finished.root)


def test_runs_of_a_matrix_see_their_variables_and_the_table_has_them(project: Project) -> None:
    project.program("toys.told", PRINTS)
    axes = {"layout": ["1x1"], "env.NCCL_ALGO": ["Ring", "Tree"]}
    project.define(program="toys.told", args={}, matrix=axes, repeat=1)
    token = {"HF_TOKEN": "hf_0123456789"}
    done = project.runner("run", "tiny", "--env", "MY_FLAG=a$b 'c", "--env", "HF_TOKEN", env=token)
    assert done.code == 0, done.snapshot
    seen = set()
    for run in project.runs():
        record = project.record(run)
        launch = record["launch"]
        assert (launch["args"]["env.MY_FLAG"], launch["args"]["env.HF_TOKEN"]) == ("a$b 'c", MASK)
        assert record["metrics"]["length"] == len(token["HF_TOKEN"])
        seen.add(
            (
                launch["axes"]["env.NCCL_ALGO"],
                (run / "raw" / "node0-rank0.stdout").read_text().partition("told ")[2].split("\n")[0],
            )
        )
    assert seen == {(algo, f"{algo} a$b 'c {MASK}") for algo in ("Ring", "Tree")}
    assert not [path for path in project.results.rglob("*") if path.is_file() and b"hf_0123" in path.read_bytes()]
    assert "env.NCCL_ALGO" in project.runner("summarize").stdout
    assert "HF_TOKEN" in project.refused("run", "tiny", "--env", "HF_TOKEN=hf_0123456789")
