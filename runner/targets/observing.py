"""Brings the observer of unedited scripts (trainkit/observer) to the processes of a run."""

import shutil
from pathlib import Path

import trainkit
from runner.definitions.plan import Run
from runner.records.folder import RunFolder

HOOKS = Path(__file__).parent / "hooks"
OBSERVER = Path(trainkit.__file__).parent / "observer"
OBSERVE = "KIT_OBSERVE"
COPY = "observer"
"""Its folder below the run's, while the run lasts."""


def is_observed(run: Run) -> bool:
    """Whether to observe a run: the kit's own programs report by themselves."""
    return run.observed and bool(run.cell.program.files)


def bring(folder: RunFolder) -> Path:
    """Copy it to where every node and container sees it."""
    copy = folder.path.resolve() / COPY
    for source in (HOOKS, OBSERVER):
        shutil.copytree(source, copy / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def take_away(folder: RunFolder) -> None:
    """Remove the copy; safe to call again."""
    shutil.rmtree(folder.path / COPY, ignore_errors=True)


def variables(copy: str | Path, search: str) -> dict[str, str]:
    """Return what lets Python find a copy before anything else."""
    path = ":".join(filter(None, [f"{copy}/{HOOKS.name}", search]))
    return {OBSERVE: f"{copy}/{OBSERVER.name}", "PYTHONPATH": path}
