"""The options of targets: typed, listed, recorded, and refused where a target lacks them."""

import json

import pytest

from runner.targets import TARGETS
from tests.support.projects import Project

REPLAY = ["run", "tiny", "--on", "replay"]
REFUSED = [
    (["run", "tiny", "--with", "memory=8Gi"], "--with memory=8Gi: target local has no option 'memory'; targets "),
    ([*REPLAY, "--with", "recordin=x"], "--with recordin=x: target replay has no option 'recordin'; did you mean"),
    ([*REPLAY, "--with", "recording"], "--with recording: write name=value; `runner targets replay` lists the options"),
    (REPLAY, "target replay needs --with recording=...: "),
    (["run", "tiny", "--memory", "8Gi"], "--memory: write --with memory=8Gi; `runner targets` says which target"),
    (["run", "tiny", "--on", "replay", "--recording", "a b.log"], "--recording: write --with recording=a b.log; "),
    (["collect", "x.yaml", "--namespace"], "--namespace: write --with namespace=...; "),
    (["collect", "results", "--with", "namespace=n"], "--with namespace=n: is for a file of k8s/; a run's folder"),
    (["targets", "lokal"], "no target 'lokal'; did you mean 'local'?"),
]


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=[" ".join(words) for words, _ in REFUSED])
def test_an_option_that_does_not_fit_is_one_line_and_nothing_is_started(
    project: Project, words: list[str], said: str
) -> None:
    before = project.written()
    assert project.refused(*words).startswith(f"error: {said}")
    assert project.written() == before


def test_the_targets_and_their_options_are_listed(project: Project) -> None:
    listed = project.runner("targets")
    assert (listed.code, listed.stderr) == (0, "")
    names = [line.partition("\t")[0] for line in listed.stdout.splitlines()]
    assert names == [*TARGETS]
    options = project.runner("targets", "replay").stdout.splitlines()
    assert options[0] == "name\ttype\tdefault\twhat it is"
    assert options[1].startswith("recording\ttext\tneeded\ta recorded stdout")
    kubernetes = {
        line.split("\t")[0]: line.split("\t") for line in project.runner("targets", "kubernetes").stdout.splitlines()
    }
    assert kubernetes["job"][1:3] == ["pytorchjob|trainjob|indexed", "pytorchjob"]
    assert kubernetes["namespace"][1:3] == ["text", "-"]
    assert project.runner("targets", "local").stdout == "target local has no options\n"


def test_the_schema_of_a_definition_is_printed(project: Project) -> None:
    printed = project.runner("schema")
    assert (printed.code, printed.stderr) == (0, "")
    schema = json.loads(printed.stdout)
    assert {"program", "matrix", "scaling"} <= set(schema["properties"])


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("runner re", "report reproduce recover resume render"),
        ("runner plan t", "tiny"),
        ("runner run tiny --on k", "kubernetes"),
    ],
)
def test_shells_complete_commands_experiments_and_targets(project: Project, words: str, found: str) -> None:
    env = {"_RUNNER_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    assert project.runner(env=env).stdout.split() == found.split()
