"""A closed stderr, or a full disk under its log, changes no outcome of a command."""

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.launches import BEGINNING, WAIT, nothing_is_left_of, one_run, until, words_are_printed
from tests.support.projects import Project, complete

pytestmark = pytest.mark.real_processes


@pytest.fixture(params=["its reader has gone", "its disk is full"])
def unwritable(request: pytest.FixtureRequest) -> Iterator[int]:
    if request.param == "its disk is full":
        end = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, end = os.pipe()
        os.close(reader)
    yield end
    os.close(end)


def test_runs_go_on_and_are_recorded_and_a_refusal_keeps_its_exit_code(project: Project, unwritable: int) -> None:
    project.define(matrix={"layout": ["1x1"]}, repeat=2)
    for words, code in ((["run", "tiny"], 0), (["plan", "nothing"], 2)):
        command = [project.command, *words]
        done = subprocess.run(command, cwd=project.root, env=project.environment(), stderr=unwritable, check=False)
        assert done.returncode == code
    assert [project.record(run)["status"] for run in project.runs()] == ["completed"] * 2


@pytest.mark.slow
def test_ctrl_c_that_ends_the_reader_first_ends_the_run_and_is_recorded(project: Project) -> None:
    one_run(project, BEGINNING + WAIT, "1x1")
    with project.start("run", "tiny") as process:
        until(words_are_printed(project, "waits"))
        assert process.stderr
        process.stderr.close()  # as by `2>&1 | tee log`, where Ctrl-C ends `tee` too
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait() == 130
    (run,) = project.runs()
    assert project.record(run)["status"] == "interrupted"
    assert nothing_is_left_of(run)


@pytest.mark.parametrize(("redirect", "code"), [(">&-", 0), (">/dev/full", 2)])
@pytest.mark.parametrize("words", ["--help", "plan", "targets"])
def test_an_output_that_is_closed_or_full_is_no_defect(project: Project, words: str, redirect: str, code: int) -> None:
    shell = ["/bin/sh", "-c", f"{shlex.quote(project.command)} {words} {redirect}"]
    done = complete(shell, project.root, project.environment())
    assert done.code == code, done.stderr
    assert ("error: the output could not be written: " in done.stderr) == bool(code)
    assert not any(word in done.stderr for word in ("Traceback", "defect"))
