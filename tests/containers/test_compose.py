"""Runs in containers, started by hand and on target compose, give the same records as on this machine."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.containers.engine import built, compose, run, up
from tests.support.containers import Images, docker, inspected, name_of_its_own
from tests.support.launches import ended, run_once, until
from tests.support.projects import Project
from tests.support.same_records import curve

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("image")]


def collected(project: Project, folder: Path) -> dict[str, Any]:
    done = project.runner("collect", folder)
    assert done.code == 0, done.snapshot
    return project.record(folder)


def test_a_layout_that_is_started_by_hand_gives_the_record_of_this_machine_to_the_owner_of_the_results(
    project: Project,
) -> None:
    layout, other = "1+2", project.root / "results of another"
    other.mkdir()
    os.chown(other, 12345, 12346)
    mine = project.root / "compose/mine.yml"
    mine.write_text((mine.parent / "2node-cpu.yml").read_text().replace("../results", "../results of another"))
    shown = up(project, "mine", EXPERIMENT="quickstart", ARGS="--epochs 3")
    mine.unlink()
    assert f"✓ {layout}" in shown.stdout, shown.stdout
    (folder,) = other.glob("quickstart/*")
    assert {(path.stat().st_uid, path.stat().st_gid) for path in [folder, *folder.rglob("*")]} == {(12345, 12346)}
    record = collected(project, folder)
    done, local = run_once(project, *f"quickstart --layout {layout} --set epochs=3 --device cpu".split())
    assert (done.code, record["status"], record["launch"]["target"]) == (0, "completed", "compose"), done.stderr
    assert curve(record) == curve(local)
    assert record["evaluations"] == local["evaluations"] != []
    assert record["events"]["seen"] == record["events"]["expected"] > 40
    for fact in ("argv", "args", "layout", "axes", "program", "definition_sha256"):
        assert record["launch"][fact] == local["launch"][fact]
    assert record["launch"]["code"]["sources_sha256"] == local["launch"]["code"]["sources_sha256"]


def test_results_that_the_chosen_user_cannot_write_are_refused_in_one_line(project: Project) -> None:
    project.results.chmod(0o755)
    shown = up(project, "1cpu", "--no-log-prefix", KIT_UID="4242", KIT_GID="4242")
    (line,) = [line for line in shown.stdout.splitlines() if "results" in line]
    assert "user 4242 cannot write" in line


def test_a_gpu_file_tells_how_many_gpus_were_asked_for_and_are_seen(project: Project) -> None:
    shown = up(project, "2gpu", "--no-log-prefix", EXPERIMENT="quickstart")
    assert "could not select device driver" not in shown.stdout, ".ci/engine up brings a stand-in for NVIDIA's hook"
    assert "2 GPUs" in shown.stdout
    assert "Traceback" not in shown.stdout
    by_hand = collected(project, project.runs("quickstart")[-1])
    _, contained = run(project, *"quickstart --layout 1x1 --device cuda".split())
    for gpus, record in ((2, by_hand), (1, contained)):
        assert record["status"] == "failed"
        assert any(f"{gpus} GPUs" in line for line in record["failure"]["last_lines"])


def test_compose_accepts_every_file_without_a_warning(project: Project) -> None:
    checked = [compose(project, path.stem, "config", "-q") for path in (project.root / "compose").glob("*.yml")]
    assert len(checked) > 8
    assert {(done.returncode, done.stdout) for done in checked} == {(0, "")}


def test_a_record_names_its_image_and_base_and_a_kept_request_can_be_started_again(
    project: Project, image: Images
) -> None:
    done, record = run(project, *"toy --layout 1x1 --device cpu".split())
    assert done.code == 0, done.stderr
    held = record["launch"]["image"]
    assert held["id"] == inspected(image.cpu, "{{json .Id}}")
    base = os.environ.get("CPU_BASE_IMAGE") or held["base"]["name"]
    assert held["base"]["id"] == inspected(base, "{{json .Id}}")
    folder = project.results / "toy" / record["launch"]["id"]
    (folder / "raw/node0").mkdir()
    words = ["compose", "-f", str(folder / "request/compose.yaml"), "-p", name_of_its_own("again")]
    docker(*words, "up", "--no-build")
    docker(*words, "down")
    (again,) = folder.glob("raw/node0/*/attempt_0/0/stdout.log")
    assert '"run_stop"' in again.read_text()


def test_two_images_are_compared_as_they_are(project: Project, image: Images, tmp_path: Path) -> None:
    changed = "echo '# another program' >> /workspace/experiments/toy/ddp.py"
    choices = "--experiment toy --on compose --layout 1x1 --device cpu --repeat 1".split()
    with built(f"FROM {image.cpu}\nUSER 0\nRUN {changed}\n", "other", tmp_path) as other:
        done = project.runner("compare", image.cpu, other, *choices, "--json")
    assert done.code == 4, done.snapshot
    (cell,) = json.loads(done.stdout)["cells"]
    assert [what.partition(" differs")[0] for what in cell["differs"]] == ["image", "code"]
    launches = [project.record(run)["launch"] for run in project.runs("toy")]
    assert {launch["side"]["name"]: launch["image"]["name"] for launch in launches} == {"A": image.cpu, "B": other}


def of_checks() -> str:
    return docker("ps", "--all", "--quiet", "--filter", "name=kit-once").strip()


def test_a_check_runs_in_a_container_of_the_image_and_leaves_none(project: Project) -> None:
    words = "check quickstart --on compose --set epochs=2".split()
    done = project.runner(*words, "--json")
    verdict = json.loads(done.stdout)
    assert (done.code, verdict["verdict"], verdict["unknown"]) == (0, "same", []), done.snapshot
    assert any("first gradient" in fact for fact in verdict["facts"])
    assert not of_checks()
    process = project.start(*words)
    until(of_checks, 60)
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 130
    assert not of_checks()
