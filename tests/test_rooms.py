"""The walls between the rooms: who may import whom, who may write where, and what is loaded for which command."""

from __future__ import annotations

import ast
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from runner.cli.command_table import FURTHER, MAIN
from tests.support.projects import ROOT, Project, complete

LEVELS = {"core": 0, "logs": 1, "records": 2, "definitions": 3, "report": 4, "targets": 4, "execution": 5, "cli": 6}
TOOLS = ("check", "doctor", "init", "pages", "proof")
LEVELS |= {f"tools.{name}": 7 for name in TOOLS}
"""A room imports from rooms of a lower level only: `report` and `targets` do not know each other, nor do two tools."""
TRAINS = {"torch", "torchvision", "transformers", "numpy", "experiments"}
ONLY_IN = {
    "rich": "runner.cli.terminal",
    "typer": "runner.cli",
    "docker": "runner.targets.compose",
    "kubernetes": "runner.targets.kubernetes",
    "matplotlib": "runner.tools.pages",
    "jinja2": "runner.tools.pages",
    "markupsafe": "runner.tools.pages",
    "regex": "runner.logs.pattern",
    "mlflow": "runner.tools.pages.mlflow_store",
}
"""Libraries that one module or room knows; a tool's commands, `*_command.py`, know typer too."""
LISTING = """
import sys
sys.argv = ["runner", *sys.argv[1:]]
from runner.cli import main
try:
    main()
finally:
    print(*sorted({name if name[:6] == "runner" else name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""
# Calls that write files; who may make them outside of a run's folder, and where that is.
WRITING = frozenset(
    """
    write_text write_bytes mkdir makedirs touch rename unlink rmdir rmtree copyfile copy symlink_to copytree move
    NamedTemporaryFile TemporaryFile mkstemp truncate connect hardlink_to chmod utime
    """.split()
)
ELSEWHERE = (
    "runner.records",  # results/, and nothing else does
    "runner.core.temporary",  # the folder for temporary files
    "runner.tools.check",  # the folder for temporary files, and what a checked program saved, as it was before
    "runner.execution.node",  # results/.nodes, where nodes by hand find one run
    "runner.execution.disk",  # a file without a name, which holds room for a record
    "runner.execution.recover",  # a file for each run that was started, in the user's state folder
    "runner.execution.worktrees",  # the folder for temporary files, with a checkout of each commit
    "runner.core.output",  # the files that a person names, compose/, k8s/, slurm/ and containers/
    "runner.tools.pages.files",  # the folder of plots that a person names
    "runner.targets.compose",  # the data folder, which containers are shown
    "runner.targets.observing",  # a copy of the observer beside a run, while it lasts
    "runner.targets.slurm.commands",  # a file in memory, from which sbatch reads its script
    "runner.targets.ssh",  # on hosts: the kit's folder; here: the folder of ssh's sockets
    "runner.tools.init",  # a definition and the settings; a first run, in the folder for temporary files
    "runner.tools.proof",  # the archive that a person names, and checkouts in the folder for temporary files
    "runner.cli.exit",  # the log of a defect of ours, in the folder for temporary files
)


@cache
def sources(folder: str) -> dict[str, ast.Module]:
    """The modules below a folder by their names; what runs in the process of any program belongs to no room."""
    paths = sorted(path for path in (ROOT / folder).rglob("*.py") if not {"hooks", "observer"} & {*path.parts})
    return {name_of(path): ast.parse(path.read_text("utf-8")) for path in paths}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.Module) -> set[str]:
    """All that a module imports, also for types, in a function or by name; of `from a import b`, `a.b`."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            found |= {str(word.value) for word in node.args if isinstance(word, ast.Constant)}
    return found


def graph(folder: str) -> dict[str, set[str]]:
    """Which modules of a folder each one imports."""
    modules = sources(folder)
    named = {name: imports(tree) for name, tree in modules.items()}
    return {
        name: {other if other in modules else other.rpartition(".")[0] for other in found} & modules.keys() - {name}
        for name, found in named.items()
    }


def room(module: str) -> str:
    """The room of a module; each tool is one."""
    parts = module.split(".")[1:]
    return ".".join(parts[:2] if parts[:1] == ["tools"] else parts[:1])


def below(module: str, place: str) -> bool:
    return module == place or module.startswith(f"{place}.")


def test_every_import_runs_from_a_higher_room_to_a_lower_one() -> None:
    edges = graph("runner")
    assert len(edges) > 40
    assert {room(name) for name in edges} == {*LEVELS, "", "__main__", "tools"}
    wrong = [
        f"{name} -> {other}"
        for name, others in edges.items()
        for other in others
        if room(name) in LEVELS
        and room(other) != room(name)
        and room(other)
        and LEVELS.get(room(other), 9) >= LEVELS[room(name)]
    ]
    assert sorted(wrong) == []


@pytest.mark.parametrize("folder", ["runner", "trainkit", "experiments"])
def test_no_modules_import_each_other_in_a_circle(folder: str) -> None:
    list(TopologicalSorter(graph(folder)).static_order())  # the error names the circle


def test_each_library_is_known_only_where_it_belongs() -> None:
    wrong = []
    for name, tree in sources("runner").items():
        first = {module.partition(".")[0] for module in imports(tree)}
        wrong += [f"{name}: {library}" for library in first & TRAINS]
        first -= {"typer"} if name.endswith("_command") else set()
        wrong += [f"{name}: {lib}" for lib, place in ONLY_IN.items() if lib in first and not below(name, place)]
    for folder in ("trainkit", "experiments"):
        above = {"runner", "experiments"} if folder == "trainkit" else {"runner"}
        for name, tree in sources(folder).items():
            wrong += [f"{name}: {module}" for module in imports(tree) if module.partition(".")[0] in above]
    assert sorted(wrong) == []


def writes(tree: ast.Module) -> list[str]:
    """Every call of a source file that may write to the disk."""
    found = []
    for node in ast.walk(tree):
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
            found.append(ast.unparse(node))
    return found


def test_only_the_records_write_under_results() -> None:
    writers = set()
    wrong = []
    for name, tree in sources("runner").items():
        found = [call for call in writes(tree) if not call.endswith("folder.replace(record)")]
        places = [place for place in ELSEWHERE if below(name, place)]
        writers |= set(places) if found else set()
        wrong += [f"{name}: {call}" for call in found if not places]
    assert sorted(wrong) == []
    assert writers == set(ELSEWHERE), "a place that no longer writes leaves the list"


def prints(tree: ast.Module) -> list[str]:
    """Every call of a source file that may print."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    words = [ast.unparse(call.func) for call in calls]
    return [word for word in words if word.endswith(("print", "echo", "stdout.write", "stderr.write", "buffer.write"))]


def test_only_one_place_prints_and_one_draws() -> None:
    found = {name for name, tree in sources("runner").items() if prints(tree)}
    assert found == {"runner.cli.printing", "runner.cli.terminal"}


def modules_of(*words: str, project: Project) -> set[str]:
    done = complete([sys.executable, "-c", LISTING, *words], project.root, project.environment())
    assert done.code in (0, 2), done.stderr
    return set(done.stderr.splitlines()[-1].split())


def test_help_loads_no_target_no_command_and_nothing_heavy(project: Project) -> None:
    loaded = modules_of("--help", project=project)
    assert "typer" in loaded
    heavy = {"markdown_it", "docker", "kubernetes", "msgspec", "psutil", "ruamel", "rich", "sqlite3", "asyncio"}
    heavy |= {"mlflow", "matplotlib", "jinja2"}
    assert not loaded & (heavy | TRAINS)
    assert "runner.cli.command_table" in loaded
    assert not loaded & {f"runner.{entry}" for entry, _ in (MAIN | FURTHER).values()}


def test_no_command_loads_what_trains(finished: Project) -> None:
    for words in (["plan"], ["plan", "tiny"], ["run", "tiny", "--dry-run"], ["summarize"], ["collect", "nowhere"]):
        loaded = modules_of(*words, project=finished)
        assert not loaded & {"torch", "torchvision", "numpy", "docker", "kubernetes", "scipy", "matplotlib", "jinja2"}


@pytest.mark.parametrize("name", ["runner/targets/look.py", "runner/tools/doctor/inside.py"])
def test_what_runs_in_any_image_starts_with_python_3_8(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text("utf-8"), feature_version=(3, 8))
    later = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    assert [alias.name for node in later for alias in node.names] == ["annotations"]
