"""The wheel: its content, and its use in an environment without torch and without this checkout."""

import email
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.installed import Installed
from tests.support.projects import ROOT, Project

LARGE = {"torch", "torchvision", "transformers", "matplotlib", "kubernetes", "mlflow"}
"""Packages of gigabytes, or needed by few commands."""
MOST_BYTES = 62_000_000
ALONE = """
import sys
for name in ("torch", "transformers", "matplotlib", "kubernetes"):
    sys.modules[name] = None
from runner.cli import main
main()
"""


def test_the_wheel_holds_the_runner_and_its_library_and_no_experiments(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = wheel.namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"runner", "trainkit"}
    paths = [path for folder in ("runner", "trainkit") for path in (ROOT / folder).rglob("*.*")]
    committed = {str(path.relative_to(ROOT)) for path in paths if path.suffix != ".pyc" and path.is_file()}
    assert committed <= set(names)


def test_large_packages_are_optional(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
    needed = [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]
    always = {need.name for need in needed if need.marker is None or need.marker.evaluate({"extra": ""})}
    assert not always & LARGE
    assert any(need.name == "torch" and need.marker.evaluate({"extra": "torch"}) for need in needed if need.marker)


def test_it_imports_from_its_own_environment_and_not_from_the_checkout(installed: Installed) -> None:
    code = "import runner, trainkit; from importlib.util import find_spec as find; "
    code += "print(runner.__file__, trainkit.__file__, find('experiments'))"
    done = installed.run(Path("/"), "python", "-c", code)
    assert done.stdout.count(str(installed.folder)) == 2, done.snapshot
    assert done.stdout.endswith("None\n")


@pytest.mark.parametrize("words", [["summarize", "results"], ["report", "results"], ["collect", "train.log"]])
def test_a_machine_without_torch_can_read_and_report(
    installed: Installed, finished: Project, tmp_path: Path, words: list[str]
) -> None:
    shutil.copytree(finished.results, tmp_path / "results")
    (tmp_path / "train.log").write_text("Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.300000\n")
    done = installed.run(tmp_path, "python", "-c", ALONE, *words)
    assert done.code == 0, done.snapshot


@pytest.mark.network
def test_a_clean_install_is_small_and_its_commands_work(
    installed: Installed, finished: Project, tmp_path: Path
) -> None:
    clean, fetched = tmp_path / "venv", tmp_path / "fetched"
    subprocess.run([sys.executable, "-m", "venv", clean], check=True)
    pip = [clean / "bin" / "pip", "--disable-pip-version-check", "--no-cache-dir", "--quiet"]
    subprocess.run([*pip, "download", "--dest", fetched, installed.wheel], check=True)
    assert sum(path.stat().st_size for path in fetched.iterdir()) < MOST_BYTES
    subprocess.run([*pip, "install", "--no-index", "--find-links", fetched, installed.wheel], check=True)
    alone = Installed(clean, installed.wheel)
    assert "| 1x2 |" in alone.run(tmp_path, "runner", "summarize", str(finished.results)).stdout
    started = alone.run(finished.root, "runner", "run", "tiny", "--results", str(tmp_path / "none"))
    assert (started.code, started.stdout) == (2, "")
    assert "pip install 'distributed-experiment-kit[torch]'" in started.stderr
