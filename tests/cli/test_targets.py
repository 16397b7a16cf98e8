"""What a person can ask for without a run: the targets and their options, and the shell's completion."""

import pytest

from runner.targets import TARGETS
from tests.support.projects import Project


def test_the_targets_and_their_options_are_listed(project: Project) -> None:
    listed = project.runner("targets")
    assert (listed.code, listed.stderr) == (0, "")
    names = [line.partition("\t")[0] for line in listed.stdout.splitlines()]
    assert names == [*TARGETS]
    kubernetes = {
        line.split("\t")[0]: line.split("\t") for line in project.runner("targets", "kubernetes").stdout.splitlines()
    }
    assert kubernetes["name"] == ["name", "type", "default", "what it is"]
    assert kubernetes["job"][1:3] == ["pytorchjob|trainjob|indexed", "pytorchjob"]
    assert kubernetes["namespace"][1:3] == ["text", "-"]
    assert project.runner("targets", "local").stdout == "target local has no options\n"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("runner re", "report reproduce recover render"),
        ("runner plan t", "tiny"),
        ("runner run tiny --on k", "kubernetes"),
    ],
)
def test_shells_complete_commands_experiments_and_targets(project: Project, words: str, found: str) -> None:
    env = {"_RUNNER_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    assert project.runner(env=env).stdout.split() == found.split()
