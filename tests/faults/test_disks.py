"""A disk that fills up: the output is kept, and the user is told."""

import shutil

import pytest

from tests.execution.test_disk import needs_a_small_disk, run_on_a_small_disk
from tests.support.kills import lost
from tests.support.launches import BEGINNING, nothing_is_left_of, one_run
from tests.support.projects import Project

pytestmark = pytest.mark.real_processes

# Each rank counts its lines in a file on another disk.
COUNTS = """
own = os.open(f"count-{RANK}", os.O_WRONLY | os.O_CREAT)
number = 0
while True:
    text = b"line %d of rank %d\\n" % (number + 1, RANK) + b"x" * 999 + b"\\n"
    try:
        if os.write(1, text) < len(text):
            break
    except OSError:
        break
    number += 1
os.write(own, b"%d\\n" % number)
sys.exit(5)
"""


@pytest.mark.slow
@needs_a_small_disk
def test_what_a_full_disk_took_is_in_the_record_and_the_person_is_told(project: Project) -> None:
    one_run(project, BEGINNING + COUNTS, "1x2", repeat=2)
    done = run_on_a_small_disk(project)
    assert (done.code, done.stdout) == (1, "")
    assert "failed: the disk of results/tiny/" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: the disk of results is full")
    printed = {int(path.name[6:]): int(path.read_text()) for path in project.root.glob("count-*")}
    (run,) = (project.root / "kept" / "tiny").iterdir()
    record = project.record(run)
    assert (record["status"], record["outcome"]["stopped_because"]) == ("failed", record["reason"])
    assert sum(printed.values()) > 100
    assert nothing_is_left_of(run)
    shutil.rmtree(project.results)
    (project.root / "kept").rename(project.results)
    assert [project.runner(command).code for command in ("summarize", "recover")] == [0, 0]
    assert lost(project.results / "tiny" / run.name, printed) == 0
