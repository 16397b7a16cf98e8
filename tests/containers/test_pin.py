"""Base images are pinned to digests that the engine has read from a registry, and to no others."""

import shutil
from pathlib import Path

import pytest
import yaml

from tests.containers.registry import registry
from tests.support.containers import docker
from tests.support.projects import Project

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]


def test_the_digest_that_a_registry_told_is_locked_and_used(project: Project, tmp_path: Path) -> None:
    here = Project(tmp_path / "project", project.env)
    shutil.copytree(
        ROOT / "experiments", here.root / "experiments", ignore=shutil.ignore_patterns("__pycache__", "digits")
    )
    for name in ("image.lock", "Dockerfile", "pyproject.toml", "rendered.yaml"):
        shutil.copy(ROOT / name, here.root)
    before = (here.root / "image.lock").read_bytes()
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\n")
    with registry() as address:
        base = f"{address}/pytorch/base:1"
        docker("build", "--quiet", "--tag", base, ".", cwd=tmp_path)
        try:
            unknown = here.runner("image", "pin", "--base", base)
            assert (unknown.code, unknown.stderr) == (
                2,
                f"error: the engine does not hold {base} with a registry's digest: docker pull {base}\n",
            )
            assert (here.root / "image.lock").read_bytes() == before
            pushed = docker("push", base)
            done = here.runner("image", "pin", "--base", base)
        finally:
            docker("image", "rm", base)
    assert done.code == 0, done.stderr
    digest = next(word for word in pushed.split() if word.startswith("sha256:") and len(word) == 71)
    locked = f"{base}@{digest}"
    assert f"BASE_IMAGE={locked}\n" in (here.root / "image.lock").read_text()
    assert f"BASE_IMAGE={locked}" in done.stdout
    assert "CPU_BASE_IMAGE=python:3.11-slim  (not held by the engine: not pinned)" in done.stdout
    assert f"ARG BASE_IMAGE={locked}\n" in (here.root / "Dockerfile").read_text()
    file = yaml.safe_load((here.root / "compose" / "2gpu.yml").read_text())
    assert file["services"]["node0"]["build"]["args"]["BASE_IMAGE"] == f"${{BASE_IMAGE:-{locked}}}"
    assert here.runner("render", "--check").code == 0
