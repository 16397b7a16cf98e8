"""The walls of the house."""

from __future__ import annotations

import ast
import builtins
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from runner import definition, targets
from runner.plan import make_plan

if TYPE_CHECKING:
    from tests.runner.conftest import Project

ROOT = Path(__file__).parents[2]
RUNNER = sorted((ROOT / "runner").rglob("*.py"))
EXPERIMENTS = sorted((ROOT / "experiments").rglob("*.py"))
LISTING = """
import sys
sys.argv = ["runner", *sys.argv[1:]]
from runner.cli import main
try:
    main()
finally:
    print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""
# Calls that write files; who may make them outside of a run's folder, and where that is.
WRITING = {
    "write_text",
    "write_bytes",
    "mkdir",
    "makedirs",
    "touch",
    "rename",
    "unlink",
    "rmdir",
    "rmtree",
    "copyfile",
    "copy",
    "symlink_to",
}
WRITING |= {
    "copytree",
    "move",
    "NamedTemporaryFile",
    "TemporaryFile",
    "mkstemp",
    "truncate",
    "connect",
    "hardlink_to",
    "chmod",
    "utime",
}
ELSEWHERE = {
    "record.py": "results/, and nothing else does",
    "index.py": "the cache in the user's cache folder",
    "prepare.py": "the data folder",
    "compose.py": "the data folder, which containers are shown",
    "render.py": "compose/, k8s/ and the Dockerfile",
    "baseimages.py": "image.lock",
    "prepare_bert.py": "the data folder",
    "ending.py": "the log of a defect of ours, in the folder for temporary files",
}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found


def modules_of(*words: str, cwd: Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LISTING, *words], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode in (0, 2), done.stderr
    return set(done.stderr.splitlines()[-1].split())


def test_there_are_files_to_look_at() -> None:
    assert len(RUNNER) > 25
    assert len(EXPERIMENTS) > 10


@pytest.mark.parametrize("path", RUNNER, ids=lambda path: path.name)
def test_the_runner_never_imports_what_trains(path: Path) -> None:
    assert not imports(path) & {"torch", "torchvision", "transformers", "numpy", "experiments"}


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.name)
def test_the_experiments_never_import_the_runner(path: Path) -> None:
    assert "runner" not in imports(path)


@pytest.mark.parametrize("path", RUNNER, ids=lambda path: path.name)
def test_rich_is_imported_in_one_place(path: Path) -> None:
    assert ("rich" in imports(path)) == (path.name == "console.py")


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    loaded = modules_of("--help", cwd=tmp_path)
    assert "typer" in loaded
    assert not loaded & {
        "docker",
        "kubernetes",
        "msgspec",
        "numpy",
        "torch",
        "psutil",
        "ruamel",
        "rich",
        "sqlite3",
        "asyncio",
    }


def test_no_command_loads_what_trains(finished: Project) -> None:
    for words in (["list"], ["plan", "tiny"], ["run", "tiny", "--dry-run"], ["summarize"], ["collect", "nowhere"]):
        loaded = modules_of(*words, cwd=finished.root)
        assert not loaded & {"torch", "torchvision", "numpy", "docker", "kubernetes", "scipy"}


def writes(path: Path) -> list[str]:
    """Every call of a source file that may write to the disk."""
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        modes = [
            word.value for word in [*node.args, *(key.value for key in node.keywords)] if isinstance(word, ast.Constant)
        ]
        opens = name in ("open", "fdopen") and any(isinstance(mode, str) and set(mode) & set("wax+") for mode in modes)
        # str.replace has two arguments, Path.replace one.
        moves = name == "replace" and len(node.args) == 1 and not node.keywords and not isinstance(node.func, ast.Name)
        if name in WRITING or opens or moves:
            found.append(f"{path.name}:{node.lineno}: {ast.unparse(node)}")
    return found


@pytest.mark.parametrize("path", RUNNER, ids=lambda path: path.name)
def test_only_the_record_writes_under_results(path: Path) -> None:
    found = [call for call in writes(path) if not call.endswith(("folder.replace(record)", "folder.replace(again)"))]
    assert bool(found) == (path.name in ELSEWHERE), found


def test_the_search_for_writers_finds_each_kind(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    calls = [
        "p.write_text('')",
        "open(p, 'w')",
        "p.open(mode='ab')",
        "p.replace(q)",
        "shutil.move(a, b)",
        "os.makedirs(p)",
    ]
    path.write_text(
        "\n".join([*calls, "open(p)", "p.open('rb')", "text.replace('a', 'b')", "msgspec.structs.replace(a, b=1)"])
    )
    assert [call.partition(": ")[2] for call in writes(path)] == calls


class Forbidden(dict[str, str]):
    """An environment that nobody may look into."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        pytest.fail("a request looked into the environment")

    __getitem__ = get = __iter__ = __contains__ = items = keys = copy = _refuse


def refuse(*_: object, **__: object) -> Any:
    pytest.fail("a request touched the clock, the disk or the network")


@pytest.mark.parametrize("name", targets.TARGETS)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_request_is_pure(project: Project, monkeypatch: pytest.MonkeyPatch, name: str, device: str) -> None:
    path = project.define(matrix={"layout": ["1x1", "2+3"]}, args={"epochs": 2})
    plan = make_plan(definition.load(path, project.root), device=device)
    target = targets.load(name)
    options = {"recording": "recorded.log"} if name == "replay" else {}
    with monkeypatch.context() as blocked:
        for module, names in {
            builtins: ["open"],
            os: ["getenv", "getcwd", "stat", "scandir", "listdir", "open", "urandom", "getpid"],
            socket: ["socket", "gethostname"],
            time: ["time", "monotonic", "time_ns", "perf_counter"],
            subprocess: ["Popen", "run"],
        }.items():
            for attribute in names:
                blocked.setattr(module, attribute, refuse)
        blocked.setattr(os, "environ", Forbidden())
        requests = [target.request(run, options) for run in plan.runs]
    texts = [request.text() for request in requests]
    assert texts == [target.request(run, options).text() for run in plan.runs]
    assert len(set(texts)) == 2


def test_what_a_local_request_asks_for_is_all_in_it(project: Project) -> None:
    path = project.define(matrix={"layout": ["2+1"]}, args={"epochs": 2})
    plan = make_plan(definition.load(path, project.root), device="cuda")
    request = targets.load("local").request(plan.runs[0], {})
    assert [node.argv for node in request.nodes] == [["torchrun", "-m", "experiments.toys.ok", "--epochs", "2"]] * 2
    assert [node.env["CUDA_VISIBLE_DEVICES"] for node in request.nodes] == ["0,1", "2"]
    assert [node.env["PET_NPROC_PER_NODE"] for node in request.nodes] == ["2", "1"]
    assert [node.env["PET_NODE_RANK"] for node in request.nodes] == ["0", "1"]
    assert {node.env["OMP_NUM_THREADS"] for node in request.nodes} == {"1"}
    assert request.cwd == str(project.root)


def test_targets_do_not_parse_and_events_know_no_target() -> None:
    for path in sorted((ROOT / "runner" / "targets").glob("*.py")):
        text = path.read_text("utf-8")
        assert "runner.events" not in text, path
        assert "runner.collect" not in text, path
    for name in ("events", "compare", "report", "statistics", "collect"):
        assert "runner.targets" not in (ROOT / "runner" / f"{name}.py").read_text("utf-8"), name
