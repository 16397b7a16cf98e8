"""The same run on this machine, by hand in containers, and on target compose: the same cells, the same losses."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.containers.conftest import docker
from tests.containers.engine import compose, curve, left_behind, newest, run

if TYPE_CHECKING:
    from tests.containers.conftest import Images
    from tests.support.projects import Project

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("image")]


def collected(project: Project, experiment: str) -> dict[str, Any]:
    """Make the record of the newest run, whose nodes nobody followed from outside."""
    folder = newest(project, experiment)
    done = project.runner("collect", folder)
    assert done.code == 0, done.snapshot
    return project.record(folder)


@pytest.mark.parametrize(("file", "layout"), [("2cpu", "1x2"), ("8cpu", "1x8"), ("2node-cpu", "1+2")])
def test_a_layout_gives_the_same_record_everywhere(project: Project, image: Images, file: str, layout: str) -> None:
    up = compose(project, file, "up", "--no-color", EXPERIMENT="quickstart", ARGS="--epochs 3")
    assert up.returncode == 0, up.stdout
    assert f"✓ {layout}" in up.stdout
    assert compose(project, file, "down").returncode == 0
    assert left_behind() == []
    rows = json.loads(project.runner("summarize", "--format", "json", "--experiment", "quickstart").stdout)
    (row,) = [row for row in rows if row["layout"] == layout and row["target"] == "compose"]
    assert (row["n"], row["started_by_hand"]) == (1, 1)
    by_hand = collected(project, "quickstart")

    cell = ("quickstart", "--layout", layout, "--set", "epochs=3", "--device", "cpu")
    done, contained = run(project, *cell)
    assert done.code == 0, done.stderr
    assert left_behind() == []
    assert project.runner("run", *cell, "--repeat", "1", within=300).code == 0
    local = project.record(newest(project, "quickstart"))

    assert len(curve(local)) == 3
    assert curve(by_hand) == curve(contained) == curve(local)
    assert by_hand["evaluations"] == contained["evaluations"] == local["evaluations"]
    for record in (by_hand, contained, local):
        assert record["status"] == "completed"
        assert record["events"]["seen"] == record["events"]["expected"] > 40
        for fact in ("argv", "args", "layout", "axes", "program", "definition_sha256"):
            assert record["launch"][fact] == local["launch"][fact]
        assert record["launch"]["code"]["sources_sha256"] == local["launch"]["code"]["sources_sha256"]
    assert contained["launch"]["image"]["id"] == json.loads(docker("image", "inspect", image.cpu))[0]["Id"]
    base = os.environ.get("CPU_BASE_IMAGE") or contained["launch"]["image"]["base"]["name"]
    assert contained["launch"]["image"]["base"]["id"] == json.loads(docker("image", "inspect", base))[0]["Id"]


def test_the_files_belong_to_the_owner_of_the_results(project: Project) -> None:
    other = project.root / "results of another"
    other.mkdir()
    os.chown(other, 12345, 12346)
    (project.root / "compose" / "mine.yml").write_text(
        (project.root / "compose" / "1cpu.yml").read_text().replace("../results", "../results of another")
    )
    up = compose(project, "mine", "up", EXPERIMENT="quickstart", ARGS="--epochs=1")
    compose(project, "mine", "down")
    (project.root / "compose" / "mine.yml").unlink()
    assert up.returncode == 0, up.stdout
    (folder,) = other.glob("quickstart/*")
    owners = {(path.stat().st_uid, path.stat().st_gid) for path in [folder, *folder.rglob("*")]}
    assert owners == {(12345, 12346)}
    assert len(list(folder.rglob("*"))) > 6
    assert json.loads(project.runner("summarize", str(other), "--format", "json").stdout)[0]["n"] == 1


def test_results_that_the_chosen_user_cannot_write_are_refused_in_one_line(project: Project) -> None:
    project.results.chmod(0o755)
    up = compose(project, "1cpu", "up", "--no-color", "--no-log-prefix", KIT_UID="4242", KIT_GID="4242")
    compose(project, "1cpu", "down")
    (line,) = [line for line in up.stdout.splitlines() if "results" in line]
    assert re.fullmatch(
        r"error: results belongs to user \d+ and user 4242 cannot write in it: set KIT_UID and KIT_GID to its owner",
        line.strip(),
    )


def test_a_variable_that_makes_no_sense_is_refused_in_one_line(project: Project) -> None:
    up = compose(project, "1cpu", "up", "--no-color", "--no-log-prefix", EXPERIMENT="quickstart", ARGS="--epoch 1")
    compose(project, "1cpu", "down")
    assert "did you mean 'epochs'?" in up.stdout
    assert "Traceback" not in up.stdout


def test_a_gpu_file_tells_how_many_gpus_were_asked_for_and_are_seen(project: Project) -> None:
    up = compose(project, "2gpu", "up", "--no-color", "--no-log-prefix", EXPERIMENT="quickstart")
    compose(project, "2gpu", "down")
    if "could not select device driver" in up.stdout:
        pytest.fail("the engine has no stand-in for NVIDIA's hook: .ci/engine up brings one")
    assert "error: 2 GPUs were asked for on this node and 0 are seen" in up.stdout, up.stdout
    assert "Traceback" not in up.stdout
    assert json.loads(project.runner("summarize", "--format", "json").stdout)
    record = collected(project, "quickstart")
    assert record["status"] == "failed"
    assert "error: 2 GPUs were asked for on this node and 0 are seen" in record["failure"]["last_lines"]

    done, contained = run(project, "quickstart", "--layout", "2x1", "--device", "cuda")
    assert done.code == 1
    assert "error: 1 GPUs were asked for on this node and 0 are seen" in contained["failure"]["last_lines"]
    assert left_behind() == []


@pytest.mark.parametrize("name", ["1gpu", "2gpu", "4gpu", "8gpu", "1cpu", "2cpu", "8cpu", "2node-cpu", "2node-gpu"])
def test_compose_accepts_every_file_without_a_warning(project: Project, name: str) -> None:
    checked = compose(project, name, "config", "-q")
    assert (checked.returncode, checked.stdout) == (0, "")


def test_a_kept_request_can_be_started_again(project: Project) -> None:
    done, record = run(project, "quickstart", "--layout", "1x1", "--set", "epochs=1", "--device", "cpu")
    assert done.code == 0, done.stderr
    folder = project.results / "quickstart" / record["launch"]["id"]
    (folder / "raw" / "node0").mkdir()
    words = ["compose", "-f", str(folder / "request" / "compose.yaml"), "-p", "kit-again"]
    docker(*words, "up", "--no-build")
    docker(*words, "down")
    again = next(folder.glob("raw/node0/*/attempt_0/0/stdout.log"))
    assert '"run_stop"' in again.read_text()
