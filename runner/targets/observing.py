"""The observer of unedited scripts (trainkit/observer), and how it comes to where the processes of a run are."""

import shutil
from pathlib import Path

import trainkit
from runner.definitions.plan import Run
from runner.records.folder import RunFolder

HOOKS = Path(__file__).parent / "hooks"
OBSERVER = Path(trainkit.__file__).parent / "observer"
OBSERVE = "KIT_OBSERVE"
COPY = "observer"
"""Where it lies below the run's folder while the run lasts."""


def is_observed(run: Run) -> bool:
    """Return whether to observe a run: the kit's own programs report themselves."""
    return run.observed and bool(run.cell.program.files)


def bring(folder: RunFolder) -> Path:
    """Copy it to where every node and container sees it, whatever they see of this installation."""
    copy = folder.path.resolve() / COPY
    for source in (HOOKS, OBSERVER):
        shutil.copytree(source, copy / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def take_away(folder: RunFolder) -> None:
    """Remove the copy; safe to call again."""
    shutil.rmtree(folder.path / COPY, ignore_errors=True)


def variables(copy: str | Path, search: str) -> dict[str, str]:
    """Return what lets Python find a copy, before the other places that it searches."""
    path = ":".join(filter(None, [f"{copy}/{HOOKS.name}", search]))
    return {OBSERVE: f"{copy}/{OBSERVER.name}", "PYTHONPATH": path}
