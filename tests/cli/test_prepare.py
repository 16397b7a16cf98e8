"""`runner prepare` passes its words to the family's own program."""

from tests.support.projects import Project

ECHO = """
import os
import sys

print(sys.argv[1:], os.getcwd())
print("on stderr", file=sys.stderr)
sys.exit(int(sys.argv[-1]) if sys.argv[-1].isdigit() else 0)
"""


def test_all_words_and_the_exit_code_are_the_family_s_own(project: Project) -> None:
    project.program("toys.prepare", ECHO)
    words = ["--from", "a b", "--help", "--", "-h", "x"]
    done = project.runner("prepare", "toys", *words)
    assert (done.code, done.stderr) == (0, "on stderr\n")
    assert done.stdout == f"{words} {project.root}\n"
    assert project.runner("prepare", "toys", "7").code == 7


def test_without_words_it_lists_what_can_be_prepared(project: Project) -> None:
    project.program("toys.prepare", ECHO)
    listed = project.runner("prepare")
    assert listed.snapshot == "exit 0\n--- stdout\ntoys\trunner prepare toys --help\n--- stderr\n"
    assert "Usage: runner prepare" in project.runner("prepare", "--help").stdout
