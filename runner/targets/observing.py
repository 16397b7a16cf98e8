"""Bring the observer of unedited scripts (trainkit/observer) to the processes of a run."""

import shutil
from pathlib import Path

import trainkit
from runner.definitions.plan import Run
from runner.records.folder import RunFolder

HOOKS = Path(__file__).parent / "hooks"
OBSERVER = Path(trainkit.__file__).parent / "observer"
OBSERVE = "KIT_OBSERVE"
COPY = "observer"
"""Name of the observer's copy in the run's folder."""


def is_observed(run: Run) -> bool:
    """Return whether to observe a run. The kit's programs report events themselves, and are not observed."""
    return run.observed and bool(run.cell.program.files)


def bring(folder: RunFolder) -> Path:
    """Copy the observer into the run's folder, which every node sees. Return the path of the copy."""
    copy = folder.path.resolve() / COPY
    for source in (HOOKS, OBSERVER):
        shutil.copytree(source, copy / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def take_away(folder: RunFolder) -> None:
    """Remove the copy of the observer; safe to call again."""
    shutil.rmtree(folder.path / COPY, ignore_errors=True)


def variables(copy: str | Path, search: str) -> dict[str, str]:
    """Return the variables that make Python load a copy of the observer."""
    path = ":".join(filter(None, [f"{copy}/{HOOKS.name}", search]))
    return {OBSERVE: f"{copy}/{OBSERVER.name}", "PYTHONPATH": path}
