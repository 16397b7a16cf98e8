"""`requirements/setup.py`, by which `make` installs the packages: what it says if it cannot."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SETUP = ROOT / "requirements" / "setup.py"
OTHER_PYTHON = """
import runpy, sys
sys.version_info = (3, 13, 1, "final", 0)
sys.argv = [{path!r}, {venv!r}, "runtime"]
runpy.run_path({path!r}, run_name="__main__")
"""


def set_up(venv: Path, **env: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(SETUP), str(venv), "runtime"]
    return subprocess.run(words, env={**os.environ, **env}, capture_output=True, text=True, check=False)


def test_another_python_is_refused_in_one_line_before_anything_is_made(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    code = OTHER_PYTHON.format(path=str(SETUP), venv=str(venv))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "error: the packages are locked for Python 3.10 and 3.11, this is 3.13: name one, make PYTHON=python3.11\n"
    )
    assert not venv.exists()


@pytest.mark.slow
def test_without_a_package_index_the_last_line_says_the_way_out(tmp_path: Path) -> None:
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_FIND_LINKS": "", "PIP_RETRIES": "0"}
    done = set_up(tmp_path / "venv", **nowhere, PIP_NO_CACHE_DIR="1")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: uv could not be fetched with pip")
    assert "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = set_up(tmp_path / "file" / "venv")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "Not a directory" in done.stderr
