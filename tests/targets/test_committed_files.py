"""The rendered files are up to date, agree with the launchers, and use the locked base images."""

import shutil
from pathlib import Path

import pytest
import yaml

from runner.core.errors import RequestError
from runner.targets.committed_files import LISTING, differing, render
from runner.targets.compose.image import read_lock
from runner.targets.compose.target import Compose
from runner.targets.local import Local
from tests.support.projects import Project

ROOT = Path(__file__).parents[2]


def copy(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "containers").mkdir(parents=True)
    for name in ("containers/image.lock", "pyproject.toml", LISTING):
        shutil.copy(ROOT / name, root / name)
    shutil.copytree(ROOT / "experiments", root / "experiments", ignore=shutil.ignore_patterns("__pycache__", "digits"))
    return root


def test_what_is_committed_is_what_is_rendered_and_the_dockerfile_has_the_locked_bases() -> None:
    assert differing(ROOT) == {}
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    assert {f"ARG {name}={image}" for name, image in read_lock(ROOT).items()} < set(dockerfile)


def test_render_writes_what_differs_and_check_names_it(tmp_path: Path, project: Project) -> None:
    root = project.root = copy(tmp_path)
    assert project.runner("render").code == 0
    assert differing(root) == {}
    mine, ours = root / "compose/database.yml", root / "compose/2gpu.yml"
    for path in (mine, ours):
        path.write_text("# mine\n")
    assert project.refused("render", "--check").startswith("error: compose/2gpu.yml: ")
    assert project.runner("render").stderr == "rendered compose/2gpu.yml\n"
    assert (mine.read_text(), ours.read_bytes()) == ("# mine\n", (ROOT / "compose/2gpu.yml").read_bytes())


def test_a_pinned_base_goes_wherever_it_is_named(tmp_path: Path) -> None:
    root = copy(tmp_path)
    locked = "registry.lab:5000/torch/base:1@sha256:" + "0123456789abcdef" * 4
    (root / "containers/image.lock").write_text(f"BASE_IMAGE={locked}\nCPU_BASE_IMAGE=python:3.11-slim\n", "utf-8")
    files = {str(path.relative_to(root)): text for path, text in render(root).items()}
    assert f"BASE_IMAGE: ${{BASE_IMAGE:-{locked}}}" in files["compose/2gpu.yml"]
    assert locked not in files["compose/2cpu.yml"]


def test_a_dollar_sign_reaches_the_program_through_compose(project: Project) -> None:
    project.program("toys.other", "import sys; print(sys.argv)")
    run = project.planned(args={"epochs": 1, "dear": "$HOME ${x}"}, program="toys.other")[0]
    document = yaml.safe_load(Compose().spec(run).text())
    assert "$$$$HOME $$$${x}" in document["services"]["node0"]["command"]  # doubled for torchrun, then for Compose


@pytest.mark.parametrize("layout", ["1x1", "2+3"])
def test_compose_gives_each_node_the_gpus_of_local_and_no_other_node_the_same(project: Project, layout: str) -> None:
    (run,) = project.planned("cuda", matrix={"layout": [layout]})
    services = yaml.safe_load(Compose().spec(run).text())["services"].values()
    for service, node in zip(services, Local().spec(run).nodes, strict=True):
        (devices,) = service["deploy"]["resources"]["reservations"]["devices"]
        assert ",".join(devices["device_ids"]) == node.env["CUDA_VISIBLE_DEVICES"]


def test_a_broken_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "containers").mkdir()
    for content, why in ((b"BASE_IMAGE=a\n", "CPU_BASE_IMAGE is missing"), (b"\x80", "cannot be read")):
        (tmp_path / "containers/image.lock").write_bytes(content)
        with pytest.raises(RequestError, match=why):
            read_lock(tmp_path)
