"""A disk that fills up, and results that are removed or renamed: the output is kept, and the user is told."""

import shutil

import pytest

from tests.execution.test_disk import needs_a_small_disk, run_on_a_small_disk
from tests.support.kills import at_random, lost
from tests.support.launches import BEGINNING, END, ended, nothing_is_left_of, one_run, until, words_are_printed
from tests.support.projects import Project

pytestmark = pytest.mark.real_processes

# Each rank counts its lines in a file on another disk.
COUNTS = """
print(f"rank {RANK} has begun", flush=True)
own = os.open(f"count-{RANK}", os.O_WRONLY | os.O_CREAT)
def count(number):
    os.pwrite(own, b"%d\\n" % number, 0)
number = 0
while True:
    text = b"line %d of rank %d\\n" % (number + 1, RANK) + PADDING
    try:
        if os.write(1, text) < len(text):
            break
    except OSError:
        break
    number += 1
    if SLOW:
        count(number)
        time.sleep(0.01)
count(number)
sys.exit(5)
"""


def program(*, slow: bool) -> str:
    padding = 'b""' if slow else 'b"x" * 999 + b"\\n"'
    return BEGINNING + COUNTS.replace("PADDING", padding).replace("SLOW", str(slow)) + END


def counted(project: Project) -> dict[int, int]:
    """Return how many lines each rank has written."""
    return {int(path.name[6:]): int(path.read_text().split("\n")[0]) for path in project.root.glob("count-*")}


@pytest.mark.slow
@needs_a_small_disk
def test_what_a_full_disk_took_is_in_the_record_and_the_person_is_told(project: Project) -> None:
    one_run(project, program(slow=False), "1x2", repeat=2)
    done = run_on_a_small_disk(project)
    assert (done.code, done.stdout) == (1, "")
    assert "failed: the disk of results/tiny/" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: the disk of results is full")
    printed = counted(project)
    (run,) = (project.root / "kept" / "tiny").iterdir()
    record = project.record(run)
    assert (record["status"], record["outcome"]["stopped_because"]) == ("failed", record["reason"])
    assert sum(printed.values()) > 100
    assert nothing_is_left_of(run)
    shutil.rmtree(project.results)
    (project.root / "kept").rename(project.results)
    assert [project.runner(command).code for command in ("summarize", "recover")] == [0, 0]
    assert lost(project.results / "tiny" / run.name, printed) == 0


@pytest.mark.slow
@pytest.mark.parametrize("renamed", [True, False], ids=["renamed", "removed"])
def test_results_that_go_away_are_said_and_recovered(project: Project, renamed: bool) -> None:
    one_run(project, program(slow=True), "1x2")
    process = project.start("run", "tiny")
    until(words_are_printed(project, "has begun", 2))
    at_random(2)
    (run,) = project.runs()
    kept = project.root / "kept"
    if renamed:
        project.results.rename(kept)
    else:
        shutil.rmtree(project.results)
        kept.mkdir()
    code, stderr = ended(process)
    assert (code, "is gone" in stderr) == (1, True), stderr
    assert nothing_is_left_of(run)
    assert project.runner("summarize", "kept").code == 0
    recovered = project.runner("recover", "kept")
    assert (recovered.code, "finished: incomplete" in recovered.stdout) == (0, renamed), recovered.snapshot
    moved = kept / "tiny" / run.name
    if renamed:
        assert project.record(moved)["status"] == "incomplete"
        assert lost(moved, counted(project)) == 0
