"""YAML -> Experiment, and the definitions of a project.

Every complaint has file:line, what is wrong and what was meant.
"""

import os
from pathlib import Path

from runner.core import yaml_reader
from runner.core.errors import RequestError, did_you_mean
from runner.core.text import one_line
from runner.definitions import consistency
from runner.definitions.axes import check_axes, read_matrix
from runner.definitions.definition import KEYS, NODES, ROOT, Experiment
from runner.definitions.dialects import measure_of, read_dialects, read_metrics
from runner.definitions.keys import check
from runner.definitions.published import read_published
from runner.definitions.settings import Settings, settings_of
from runner.definitions.skips import DEVICES, read_skips

__all__ = ["DEVICES", "KEYS", "Experiment", "files", "find", "load"]


def load(path: Path, root: Path, settings: Settings | None = None) -> Experiment:
    """Read and check one definition; RequestError with file:line if anything in it is wrong.

    Settings that are not written yet may stand in for those of the project's files.
    """
    document = yaml_reader.read(path)
    check(document, ROOT, document.values)
    _refuse_twins(path, root)
    values = {key: node.get("default") for key, node in NODES.items()} | document.values
    for key in ("timeout_seconds", "patience_seconds"):
        values[key] = None if values[key] is None else float(values[key])
    matrix, baseline = read_matrix(document), dict(values["baseline"] or {})
    check_axes(document, matrix, baseline, "baseline")
    dialects = read_dialects(document, root)
    values |= {
        "dialect": dialects,
        "metrics": read_metrics(document),
        "args": dict(values["args"] or {}),
        "program_args": values["program_args"] or {},
        "matrix": matrix,
        "skip": read_skips(document, matrix),
        "baseline": baseline,
        "measure": measure_of(document, values["measure"], dialects),
        "published": read_published(document, matrix),
    }
    experiment = Experiment(**values, path=path, root=root, settings=settings or settings_of(root))
    consistency.check(document, experiment)
    return experiment


def _refuse_twins(path: Path, root: Path) -> None:
    """Refuse a definition of the project whose name stands twice."""
    twins = [other for other in files(root) if other.stem == path.stem]
    if len(twins) > 1 and path.resolve() in [other.resolve() for other in twins]:
        places = " and ".join(str(other.relative_to(root)) for other in sorted(twins))
        raise RequestError(one_line(f"the name '{path.stem}' stands twice: {places}; rename one of them"))


def files(root: Path) -> list[Path]:
    """List the definitions of a project: those of every family, and those that belong to none.

    A folder that cannot be read, or that is a link, is listed itself: `load` says what is wrong with it.
    """
    folder = settings_of(root).folder
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return [folder] if folder.exists() else []
    found: list[Path] = []
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            try:
                found += [path for path in Path(entry.path).iterdir() if path.name.endswith(".yaml")]
            except OSError:
                found.append(Path(entry.path))
        elif entry.name.endswith(".yaml") or (entry.is_symlink() and entry.is_dir()):
            found.append(Path(entry.path))
    return sorted(found, key=lambda path: path.stem)


def find(name: str, root: Path) -> Path:
    """Find a definition by its name, `mnist`, or by the path of its file."""
    as_path = Path(name)
    if as_path.suffix in (".yaml", ".yml") or os.path.isfile(as_path):  # noqa: PTH113 - a long name is no error
        return as_path
    known = {file.stem: file for file in files(root)}
    if name not in known:
        raise RequestError(f"no experiment '{one_line(name)}' in {settings_of(root).folder}{did_you_mean(name, known)}")
    return known[name]
