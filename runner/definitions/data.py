"""Programs that are started beside a run: those that prepare data, and any program for its `--help`.

A definition names a family in `data:`, which has a program that brings its data, `experiments/<family>/prepare.py`.
Whether a cell needs the data only its program knows: a step that prepares data before a run never fails the run.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from runner.core.errors import RequestError, did_you_mean
from runner.core.text import one_line
from runner.definitions.program import PREPARE, Program
from runner.definitions.settings import PACKAGE

_HELP_SECONDS = 120


def families(root: Path) -> list[str]:
    """List the families that prepare data."""
    return sorted(path.parent.name for path in (root / PACKAGE).glob(f"*/{PREPARE}.py") if path.is_file())


def require(root: Path, name: str) -> None:
    """Raise RequestError if no family of this name prepares data."""
    if not name.isidentifier() or not (root / PACKAGE / name / f"{PREPARE}.py").is_file():
        said = f"no family prepares the data '{name}' (there is no {PACKAGE}/{name}/{PREPARE}.py)"
        raise RequestError(one_line(f"{said}{did_you_mean(name, families(root))}"))


def prepare_command(root: Path, name: str, words: Sequence[str]) -> list[str]:
    """Write the command that prepares data here; RequestError if no family does.

    It is run with `environment(root)`, in the current folder, so that paths among the words mean what they say.
    """
    require(root, name)
    return [sys.executable, "-m", f"{PACKAGE}.{name}.{PREPARE}", *words]


def environment(root: Path) -> dict[str, str]:
    """Return this process's environment with the project first among the places that Python imports from."""
    paths = [str(root), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def help_of(program: Program, root: Path) -> str:
    """Start a program with `--help` and return what it prints; RequestError if it fails."""
    places = environment(root)
    places["PYTHONPATH"] = os.pathsep.join([places["PYTHONPATH"], *(str(root / folder) for folder in program.search)])
    words = [sys.executable, *replace(program, alone=False).words, "--help"]
    try:
        done = subprocess.run(words, cwd=root, env=places, capture_output=True, timeout=_HELP_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise RequestError(f"{program.name} --help: it has not ended within {_HELP_SECONDS} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines() or ["it printed nothing"]
        raise RequestError(one_line(f"{program.name} --help: exit code {done.returncode}: {said[-1]}", 500))
    return done.stdout.decode("utf-8", "replace")
