"""A container that is taken away while its run goes on; tests/contract has the other ways in which runs end."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.support.containers import docker, left_of, running_of
from tests.support.launches import starting, until
from tests.support.projects import Project

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("image")]


def test_the_copy_of_a_record_cannot_end_the_containers_of_the_run_and_whoever_removes_one_ends_it(
    project: Project, tmp_path: Path
) -> None:
    with starting(project, "--on", "compose") as start:
        process, folder = start("odd-slow", "--layout", "2x1", "--set", "seconds=100")
        names = running_of(f"kit-{folder.name.lower()}", 2)
        # A folder that still gets files can change under the copy.
        until(lambda: len(list(folder.glob("raw/node*/*/attempt_0/*/stdout.log"))) == 2, 60)
        copied = tmp_path / "copied" / folder.parent.name / folder.name
        shutil.copytree(folder, copied)
        for file in ("run.json", "request/launch.json"):
            path = copied / file
            told = json.loads(path.read_text())
            told.get("launch", told)["runner"]["pid"] = 2**22 - 1  # no process has it
            path.write_text(json.dumps(told))
        done = project.runner("recover", tmp_path / "copied")
        assert "left as it is: nothing here shows that you have started it" in done.stdout, done.snapshot
        assert docker("inspect", "--format", "{{.State.Running}}", *names).split() == ["true", "true"]
        docker("rm", "--force", names[1])
        process.communicate()
    assert process.returncode == 1
    record = project.record(folder)
    assert record["status"] in ("failed", "killed")
    assert re.match(r"node 1 (left no exit code: killed, removed|was killed by SIGKILL)", record["reason"])
    assert left_of(folder) == []
