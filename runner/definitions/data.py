"""Start programs outside of runs: a family's `prepare.py`, which fetches data, or any program with `--help`."""

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
    """Return the command that prepares a family's data. Raises RequestError if the family prepares none.

    Run the command with `environment(root)`, but in the current folder, so that relative paths in `words` stay valid.
    """
    require(root, name)
    return [sys.executable, "-m", f"{PACKAGE}.{name}.{PREPARE}", *words]


def environment(root: Path) -> dict[str, str]:
    """Return this process's environment with the project first in PYTHONPATH."""
    paths = [str(root), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def help_of(program: Program, root: Path) -> str:
    """Run a program with `--help` and return its stdout. Raises RequestError if it fails."""
    places = environment(root)
    places["PYTHONPATH"] = os.pathsep.join([places["PYTHONPATH"], *(str(root / folder) for folder in program.search)])
    words = [sys.executable, *replace(program, alone=False).words, "--help"]
    try:
        done = subprocess.run(words, cwd=root, env=places, capture_output=True, timeout=_HELP_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise RequestError(f"{program.name} --help: did not end within {_HELP_SECONDS} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines() or ["it printed nothing"]
        raise RequestError(one_line(f"{program.name} --help: exit code {done.returncode}: {said[-1]}", 500))
    return done.stdout.decode("utf-8", "replace")
