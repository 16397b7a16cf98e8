"""What `runner init --containers` writes, and what it leaves as it is; no engine is needed."""

import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest
import yaml

from runner.core.errors import RequestError
from runner.definitions.settings import Settings, nearest
from runner.tools.init import wheel
from runner.tools.init.containers import image_name
from runner.tools.init.requirements import find_requirements
from runner.tools.init.settings_text import added_settings
from tests.support.installed import Installed
from tests.support.projects import Ended, Project
from tests.support.repository import commit_all
from tests.tools.init.conftest import Copy
from tests.tools.init.test_scripts import TRAINS, write

WHEEL = f"containers/{wheel.wheel_name()}"
SOURCES = ("containers/image.lock", "containers/rendered.yaml")
COMPOSE = {f"compose/{name}.yml" for name in ("1gpu", "2gpu", "1cpu", "2cpu", "2node-cpu")}
JOBS = {f"train-multinode{device}.yaml" for device in ("", "-cpu")} | {"kustomization.yaml"}
K8S = {f"{folder}/{name}" for folder in ("k8s", "k8s/trainer", "k8s/no-operator") for name in JOBS}
BUILDER = {"Dockerfile", ".dockerignore", "containers/install.sh", WHEEL, *SOURCES}


def contain(project: Project, *words: str) -> Ended:
    done = project.runner("init", "--no-try", "--containers", *words)
    assert done.code == 0, done.snapshot
    return done


def contents(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(root).parts
    }


def test_a_repository_gets_all_that_its_containers_are_made_of(copy: Copy) -> None:
    project = copy("src_layout")
    before = contents(project.root)
    dry = contain(project, "--dry-run")
    assert contents(project.root) == before
    for name in {*BUILDER, *COMPOSE, *K8S} - {WHEEL}:
        assert f"+++ b/{name}\n" in dry.stdout
    assert f"Binary files /dev/null and b/{WHEEL} differ" in dry.stdout
    shown = contain(project)
    after = contents(project.root)
    new = after.keys() - before.keys()
    assert new == {*BUILDER, *COMPOSE, *K8S, "experiments/train.yaml", ".gitignore"}
    assert {name for name in before if before[name] != after[name]} == {"pyproject.toml"}
    assert after["pyproject.toml"].startswith(before["pyproject.toml"])
    settings = nearest(project.root)
    assert settings
    assert (settings.image, settings.dockerfile, settings.path) == ("src-layout", "Dockerfile", ("src",))
    assert (project.root / "results").is_dir()
    assert (project.root / "data").is_dir()
    node = yaml.safe_load(after["compose/2cpu.yml"])["services"]["node0"]
    assert node["image"] == "${KIT_IMAGE:-src-layout:cpu}"
    assert node["command"].startswith("runner node ${EXPERIMENT:-train} --layout 1x2 --device cpu")
    job = yaml.safe_load(after["k8s/train-multinode.yaml"])
    container = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    assert container["image"] == "src-layout:gpu"
    assert container["securityContext"]["readOnlyRootFilesystem"] is False
    assert {"name": "PYTHONPATH", "value": "src"} in container["env"]
    assert project.runner("render", "--check").stderr == "everything is as rendered\n"
    assert shown.stdout.splitlines()[-2:] == ["next: runner run train --on compose", "then: runner summarize results/"]
    again = contain(project)
    assert contents(project.root) == after
    assert "wrote" not in again.stdout
    for name in ("Dockerfile", WHEEL):
        (project.root / name).unlink()
    contain(project)
    assert contents(project.root) == after


def test_nothing_that_is_there_is_overwritten(folder: Project) -> None:
    mine = {
        "train.py": TRAINS,
        "Dockerfile": "FROM scratch\n",
        ".dockerignore": "*\n",
        "compose/2cpu.yml": "services: {}\n",
    }
    mine |= {"compose/database.yml": "services: {}\n", "k8s/kustomization.yaml": "kind: Kustomization\n"}
    write(folder.root, mine)
    commit_all(folder.root)
    shown = contain(folder)
    after = contents(folder.root)
    assert {name: after[name].decode() for name in mine} == mine
    assert (
        "note: Dockerfile is there and stays as it is: runs get an image of their own, from runner.Dockerfile"
        in shown.stderr
    )
    assert "note: compose/2cpu.yml is there and stays as it is" in shown.stderr
    assert "runner.Dockerfile.dockerignore" in after
    settings = nearest(folder.root)
    assert settings
    assert settings.dockerfile == "runner.Dockerfile"
    assert yaml.safe_load(after["compose/1cpu.yml"])["services"]["node0"]["build"]["dockerfile"] == "runner.Dockerfile"
    assert "2cpu" not in yaml.safe_load(after["containers/rendered.yaml"])["compose"]["files"]
    assert folder.runner("render", "--check").stderr == "everything is as rendered\n"


def test_a_folder_that_cannot_be_made_ends_it_in_one_line_with_nothing_written(folder: Project) -> None:
    write(folder.root, {"train.py": TRAINS, "k8s": "a file\n"})
    before = contents(folder.root)
    done = folder.runner("init", "--no-try", "--containers")
    assert (done.code, done.stderr.count("error: ")) == (2, 1)
    assert done.stderr.endswith("kustomization.yaml: cannot be written: 'k8s' is no folder\n")
    assert contents(folder.root) == before


def test_of_several_experiments_one_has_to_be_named(folder: Project) -> None:
    write(folder.root, {"train.py": TRAINS, "other.py": TRAINS})
    for script in ("train.py", "other.py"):
        assert folder.runner("init", "--no-try", script).code == 0
    done = folder.runner("init", "--containers")
    assert done.code == 2
    way_out = "name one: runner init --containers --name other"
    assert done.stderr == f"error: the project has 2 experiments: {way_out}; there are other, train\n"
    contain(folder, "--name", "train")
    assert "${EXPERIMENT:-train}" in (folder.root / "compose" / "1cpu.yml").read_text()


def test_a_definition_that_cannot_run_without_gpus_gets_the_files_for_gpus(folder: Project) -> None:
    write(folder.root, {"train.py": TRAINS})
    assert folder.runner("init", "--no-try").code == 0
    path = folder.root / "experiments" / "train.yaml"
    path.write_text(path.read_text() + "skip:\n  - {when: cpu, why: it needs NCCL}\n")
    shown = contain(folder)
    assert {path.stem for path in (folder.root / "compose").iterdir()} == {"1gpu", "2gpu"}
    assert "train-multinode.yaml" in (folder.root / "k8s" / "kustomization.yaml").read_text()
    assert "note: no 2cpu: " in shown.stderr
    assert "it needs NCCL" in shown.stderr


def test_what_git_keeps_and_what_a_program_imports_is_in_the_image(folder: Project) -> None:
    write(
        folder.root, {"train.py": "from data.sets import x\n" + TRAINS, "data/sets.py": "x = 1\n", "runs/a.txt": "a\n"}
    )
    contain(folder)
    left_out = (folder.root / ".dockerignore").read_text().splitlines()
    assert "data" not in left_out
    assert {"results", "runs", "checkpoints", "**/.*"} <= set(left_out)
    spec = yaml.safe_load(folder.runner("run", "train", "--on", "compose", "--dry-run", "--device", "cpu").stdout)
    binds = {bind["target"]: bind for bind in spec["services"]["node0"]["volumes"]}
    assert binds["/workspace/data"]["read_only"] is True
    assert len(binds) == len(spec["services"]["node0"]["volumes"])


def test_definitions_of_any_folder_are_in_the_image_and_a_program_may_write_its_data_and_not_its_sources(
    folder: Project,
) -> None:
    write(folder.root, {"train.py": TRAINS, "runner.toml": 'definitions = "runs"\n'})
    contain(folder)
    assert (folder.root / "runs" / "train.yaml").is_file()
    assert "runs" not in (folder.root / ".dockerignore").read_text("utf-8").splitlines()
    spec = yaml.safe_load(folder.runner("run", "train", "--on", "compose", "--dry-run", "--device", "cpu").stdout)
    binds = {bind["target"]: bind.get("read_only", False) for bind in spec["services"]["node0"]["volumes"]}
    assert (binds["/workspace/data"], binds["/workspace/train.py"]) == (False, True)


@pytest.mark.parametrize(
    ("files", "words", "read"),
    [
        ({"requirements.txt": "click\n-r more/a.txt\n", "more/a.txt": "-c b.txt\n", "more/b.txt": ""},
         ["requirements.txt"],
         ["requirements.txt", "more/a.txt", "more/b.txt"]),
        ({"requirements.txt": "--requirement=a.txt", "a.txt": "-r requirements.txt"},
         ["requirements.txt"],
         ["requirements.txt", "a.txt"]),
        ({"pyproject.toml": '[project]\ndependencies = ["click"]'}, ["pyproject.toml"], ["pyproject.toml"]),
        ({"pyproject.toml": "[project]\nname = 'a'"}, [], []),
        ({"pyproject.toml": "[project\n"}, [], []),
        ({}, [], []),
    ],
    ids=["included", "in a circle", "pyproject", "no dependencies", "broken", "none"],
)  # fmt: skip
def test_the_requirements_of_a_project_are_found(
    tmp_path: Path, files: dict[str, str], words: list[str], read: list[str]
) -> None:
    write(tmp_path, files)
    found = find_requirements(tmp_path, "2.3.1")
    assert (found.words, found.files, found.whole) == (words, read, False)
    assert bool(found.notes) == (not words)


@pytest.mark.parametrize("line", ["-e .", ".", "./libs/x", "--editable=.[dev]", "x @ file:///workspace/x", "libs/x"])
def test_a_requirement_that_is_the_project_itself_is_installed_after_it_is_copied(tmp_path: Path, line: str) -> None:
    write(tmp_path, {"requirements.txt": f"click\n{line}\n"})
    assert find_requirements(tmp_path, "").whole


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("torch==2.5.1", "requirements.txt:2: 'torch==2.5.1', and the base images hold torch 2.3.1"),
        ("torch >= 2.4 # new", "requirements.txt:2: 'torch >= 2.4'"),
        ("torch==2.3.1+cu118", ""),
        ("torch>=2.0", ""),
        ("torchvision==0.2", ""),
        ("-r ../shared.txt", "requirements.txt:2: '-r ../shared.txt': there is no such file in the project"),
        ("-r //etc/hosts", "requirements.txt:2: '-r //etc/hosts': there is no such file in the project"),
        ("-r nowhere.txt", "requirements.txt:2: '-r nowhere.txt': there is no such file in the project"),
        ("-c https://lab.example/constraints.txt", ""),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_what_no_image_can_be_built_of_is_said_with_its_line(
    tmp_path: Path, line: str, said: str, encoding: str
) -> None:
    (tmp_path / "requirements.txt").write_bytes(f"click\r\n{line}\r\n".encode(encoding))
    notes = find_requirements(tmp_path, "2.3.1").notes
    assert [note.startswith(said) for note in notes] == [True] * bool(said)


def test_files_that_pip_does_not_read_are_named(tmp_path: Path) -> None:
    write(tmp_path, {"environment.yml": "name: a\n", "setup.py": "", "pyproject.toml": "[tool.poetry]\nname = 'a'\n"})
    assert find_requirements(tmp_path, "").notes == [
        "the dependencies of Poetry are not read: poetry export --output requirements.txt",
        "no requirements.txt and no [project.dependencies]: the image has torch and the kit; setup.py is not read",
        "environment.yml is for conda and not read: name its packages in requirements.txt",
    ]


@pytest.mark.slow
def test_the_wheel_is_the_one_that_is_installed_whether_from_the_checkout_or_from_a_wheel(installed: Installed) -> None:
    made = wheel.make_wheel()
    assert made == wheel.make_wheel()
    code = "import sys; from runner.tools.init.wheel import make_wheel; sys.stdout.buffer.write(make_wheel())"
    again = subprocess.run(
        [installed.python, "-c", code],
        cwd="/",
        env=installed.environment(Path("/nowhere")),
        capture_output=True,
        check=True,
    ).stdout
    held = []
    for data in (made, again, installed.wheel.read_bytes()):
        path = installed.folder.parent / hashlib.sha256(data).hexdigest()
        path.write_bytes(data)
        with zipfile.ZipFile(path) as archive:
            held.append(
                {name: archive.read(name) for name in archive.namelist() if not name.partition("/")[0].endswith("info")}
            )
            metadata = next(archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA"))
            scripts = next(archive.read(name) for name in archive.namelist() if name.endswith("/entry_points.txt"))
        assert scripts == b"[console_scripts]\nrunner = runner.cli:main\n"
        assert "Requires-Dist: typer>=0.15\n" in metadata
    assert held[0] == held[1] == held[2]
    assert 100_000 < len(made) < 2_000_000


@pytest.mark.parametrize(
    ("name", "image"), [("My Repo", "my-repo"), ("目", "project"), ("a.b_c", "a-b-c"), ("-x-", "x")]
)
def test_an_image_is_called_as_the_folder_is(tmp_path: Path, name: str, image: str) -> None:
    assert image_name(tmp_path / name) == image


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("runner.toml", 'path = ["src"]\n[with.local]\n', 'image = "a"\npath = ["src"]\n[with.local]\n'),
        ("pyproject.toml", "[tool.runner] # x\r\n[a]\r\n", '[tool.runner] # x\r\nimage = "a"\r\n[a]\r\n'),
        ("pyproject.toml", "[tool.runner]", '[tool.runner]\nimage = "a"\n'),
        ("pyproject.toml", "[tool.runner.with.local]\n", None),
        ("pyproject.toml", "tool = {runner = {}}\n", None),
    ],
)
def test_settings_are_added_to_those_that_are_there(tmp_path: Path, file: str, before: str, after: str | None) -> None:
    path = tmp_path / file
    path.write_bytes(before.encode())
    settings = Settings(tmp_path, path)
    if after is None:
        with pytest.raises(RequestError, match='its settings cannot be added to: write image = "a" there first'):
            added_settings(settings, {"image": "a"})
    else:
        assert added_settings(settings, {"image": "a"}) == (path, before, after)
