"""`requirements/setup.py`, by which `make` installs the packages: what it says if it cannot."""

import sys
from pathlib import Path

from tests.support.projects import ROOT, Ended, complete

SETUP = ROOT / "requirements" / "setup.py"
OTHER_PYTHON = """
import runpy, sys
sys.version_info = (3, 13, 1, "final", 0)
sys.argv = [{path!r}, {venv!r}, "runtime"]
runpy.run_path({path!r}, run_name="__main__")
"""


def set_up(venv: Path) -> Ended:
    return complete([sys.executable, SETUP, venv, "runtime"])


def test_another_python_is_refused_in_one_line_before_anything_is_made(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    code = OTHER_PYTHON.format(path=str(SETUP), venv=str(venv))
    done = complete([sys.executable, "-c", code])
    assert done.code == 1
    assert done.stderr == (
        "error: the packages are locked for Python 3.10 and 3.11, this is 3.13: name one, make PYTHON=python3.11\n"
    )
    assert not venv.exists()


def test_a_pip_that_fetches_nothing_has_a_last_line_with_the_way_out(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\n[ "$1" = -c ]\n')  # it has pip, which fails
    python.chmod(0o755)
    done = set_up(tmp_path)
    assert done.code == 1
    assert done.stderr.splitlines()[-1].startswith("error: uv could not be fetched with pip")
    assert "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = set_up(tmp_path / "file" / "venv")
    assert done.code == 1
    assert done.stderr.count("\n") == 1
    assert "Not a directory" in done.stderr
