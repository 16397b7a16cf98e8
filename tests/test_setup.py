"""`requirements/setup.py`, by which `make` installs the packages: what it says if it cannot."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.projects import ROOT, Ended, complete

SETUP = ROOT / "requirements" / "setup.py"
OTHER_PYTHON = """
import runpy, sys
sys.version_info = (3, {minor}, 1, "final", 0)
sys.argv = [{path!r}, {venv!r}, "runtime"]
runpy.run_path({path!r}, run_name="__main__")
"""


def set_up_by_python(minor: int, venv: Path, **environment: str) -> Ended:
    """Call it with a Python that says it is another one."""
    code = OTHER_PYTHON.format(minor=minor, path=str(SETUP), venv=str(venv))
    return complete([sys.executable, "-c", code], env={**os.environ, "TORCH": "", **environment})


@pytest.mark.parametrize(("torch", "minor"), [("", 13), ("current", 14)])
def test_a_newer_python_gives_way_to_one_that_is_here(tmp_path: Path, torch: str, minor: int) -> None:
    older = tmp_path / "python3.10"
    older.write_text('#!/bin/sh\necho "set up by $0 $3" >&2\n')
    older.chmod(0o755)
    done = set_up_by_python(minor, tmp_path / "venv", PATH=str(tmp_path), TORCH=torch)
    assert done.code == 0
    assert f"locked for 3.10 to 3.{minor - 1}: going on with {older}\n" in done.stderr
    assert done.stderr.endswith(f"set up by {older} runtime\n")


def test_a_newer_python_alone_without_a_network_is_refused_with_what_to_install(tmp_path: Path) -> None:
    done = set_up_by_python(13, tmp_path / "venv", PATH="", PIP_NO_INDEX="1")
    assert done.code == 1
    last = done.stderr.splitlines()[-1]
    assert all(words in last for words in ("this is 3.13: install python3.12", "PYTHON=", "TORCH=current"))
    assert not (tmp_path / "venv").exists()


def test_a_torch_without_a_lock_is_refused(tmp_path: Path) -> None:
    done = set_up_by_python(11, tmp_path / "venv", TORCH="2.9")
    assert done.code == 1
    assert done.stderr.startswith("error: no packages are locked for TORCH=2.9")


def test_a_pip_that_fetches_nothing_has_a_last_line_with_the_way_out(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\n[ "$1" = -c ]\n')  # it has pip, which fails
    python.chmod(0o755)
    done = complete([sys.executable, str(SETUP), str(tmp_path), "runtime"])
    assert done.code == 1
    assert done.stderr.splitlines()[-1].startswith("error: uv could not be fetched with pip")
    assert "Traceback" not in done.stderr
