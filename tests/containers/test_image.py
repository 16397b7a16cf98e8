"""The images: the files they add to their base, equal in two builds, and runs by any user."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.containers.engine import built
from tests.support.containers import Images, build, copy_project, docker, inspected, name_of_its_own
from tests.support.projects import Project

# One worker lists the images' files.
pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("image")]

ROOT = Path(__file__).parents[2]
NOBODY = "--read-only --tmpfs /tmp --user 12345:12345 --network none".split()
OF_THE_ENGINE = "/.dockerenv /etc/hostname /etc/hosts /etc/mtab /etc/resolv.conf".split()

# Lists each path with mode, owner, size and time, except those in stdin; with those, hashes take the place of times.
LIST = """
import hashlib, json, os, stat, sys
known = json.load(sys.stdin)
found = {}
for folder, folders, files in os.walk("/"):
    folders[:] = [name for name in folders if not os.path.ismount(os.path.join(folder, name))]
    for path in (os.path.join(folder, name) for name in folders + files):
        at = os.lstat(path)
        facts = [at.st_mode, at.st_uid, at.st_gid]
        facts += [] if stat.S_ISDIR(at.st_mode) else [at.st_size, at.st_mtime_ns]
        if known.get(path) == facts:
            continue
        if known and stat.S_ISREG(at.st_mode):
            facts[-1] = hashlib.sha256(open(path, "rb").read()).hexdigest()
        elif known and stat.S_ISLNK(at.st_mode):
            facts[-1] = os.readlink(path)
        found[path] = facts
json.dump(found, sys.stdout)
"""
PINS = """
from importlib.metadata import version
from packaging.requirements import Requirement
for line in open("requirements/runtime.lock"):
    if line[0].isalpha():
        pin = Requirement(line.rstrip(" \\\\\\n"))
        if pin.marker.evaluate() and not pin.name.startswith(("torch", "triton", "nvidia-")):
            print(pin.name, pin.specifier, version(pin.name))
"""


def files(image: str, known: str = "{}") -> str:
    words = "run --rm --interactive --network none --user 0:0 --env PYTHONDONTWRITEBYTECODE=1"
    return docker(*words.split(), image, "python", "-c", LIST, stdin=known)


def added(image: str, base: str) -> dict[str, Any]:
    """Return the files that an image adds to its base or changes: mode, owner, size and hash by path."""
    return {path: facts for path, facts in json.loads(files(image, base)).items() if path not in OF_THE_ENGINE}


@pytest.fixture(scope="module")
def base_files(image: Images) -> str:
    return files(image.base)


@pytest.fixture(scope="module")
def added_files(image: Images, base_files: str) -> dict[str, Any]:
    return added(image.gpu, base_files)


def in_image(image: str, *words: str) -> str:
    return docker("run", "--rm", *NOBODY, image, *words)


def test_both_stages_end_with_the_same_steps() -> None:
    cpu, gpu = (ROOT / "Dockerfile").read_text("utf-8").split("# The same in both stages\n")[1:]
    assert cpu.partition("\nARG CPU_BASE_IMAGE\n")[0] == gpu.partition("\nARG BASE_IMAGE\n")[0]


def test_a_stranger_without_network_on_a_read_only_disk_can_train(image: Images) -> None:
    assert inspected(image.gpu, "{{json .Config.User}}") == "1000:1000"
    assert "Usage: runner" in in_image(image.gpu)
    program = "python -m experiments.mnist.single --dataset digits --epochs 1 --device cpu"
    assert re.search(r'"run_stop".*"success"', in_image(image.gpu, *program.split()))


def test_every_program_finds_what_it_imports(image: Images) -> None:
    programs = [path for path in (ROOT / "experiments").glob("*/*.py") if "__main__" in path.read_text("utf-8")]
    names = sorted(".".join(path.relative_to(ROOT).with_suffix("").parts) for path in programs)
    assert len(names) > 8
    in_image(image.cpu, "python", "-c", f"import importlib; [importlib.import_module(name) for name in {names}]")


def test_torch_and_all_else_that_the_base_holds_stay_as_they_are(image: Images, added_files: dict[str, Any]) -> None:
    assert len(added_files) > 1000
    strange = [path for path in added_files if not f"{path}/".startswith(("/opt/kit/", "/workspace/"))]
    assert set(strange) <= {"/opt", "/tmp"}  # in the image
    where = in_image(image.gpu, "python", "-c", "import torch; print(torch.__version__, torch.__file__)")
    assert re.match(r"2\.3\.1\S* (?!/opt/kit/)", where)
    assert 10e6 < inspected(image.gpu, "{{json .Size}}") - inspected(image.base, "{{json .Size}}") < 400e6


def test_every_package_is_the_locked_one(image: Images) -> None:
    lines = in_image(image.gpu, "python", "-c", PINS).splitlines()
    assert len(lines) > 30
    assert [line for line in lines if not re.fullmatch(r"\S+ ==(\S+) \1", line)] == []


def test_only_what_a_node_needs_is_in_it(project: Project, added_files: dict[str, Any]) -> None:
    tops = {path.split("/")[2] for path in added_files if path.startswith("/workspace/")}
    assert tops == set("experiments runner trainkit pyproject.toml requirements containers README.md LICENSE".split())
    unwanted = r"/workspace/.*(__pycache__|\.pyc|/\.)|/(pip|results|data|tests|\.git|\.cache)$"
    in_workspace = [path for path in added_files if path.startswith("/workspace/") or path.count("/") < 3]
    assert [path for path in in_workspace if re.search(unwanted, path)] == []
    here = {f"/workspace/{path.relative_to(project.root)}" for path in project.root.glob("runner/**/*.py")}
    assert here <= set(added_files)


def test_a_build_from_nothing_under_another_umask_and_where_pip_has_constraints_adds_the_same_files(
    image: Images, base_files: str, added_files: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = shutil.copytree(copy_project(tmp_path).root, tmp_path / "again", copy_function=shutil.copyfile)
    for path in root.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    name = f"{name_of_its_own('again')}:1"
    constrained = f"FROM {image.base}\nRUN echo typer==0.9.0 > /constraint.txt\nENV PIP_CONSTRAINT=/constraint.txt\n"
    with built(constrained, "constrained", tmp_path) as base:
        monkeypatch.setenv("BASE_IMAGE", base)
        build(root, "gpu", name, "--no-cache")
        again = added(name, base_files)
        docker("image", "rm", name)
    assert again.pop("/constraint.txt")
    assert again == added_files
