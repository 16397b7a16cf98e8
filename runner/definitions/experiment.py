"""YAML -> Experiment. Every complaint has file:line, what is wrong and what was meant."""

from __future__ import annotations

from pathlib import Path

from runner.core import yaml_reader
from runner.definitions import consistency
from runner.definitions.args import read_args, read_mapping, read_program_args
from runner.definitions.axes import check_axes, read_matrix
from runner.definitions.definition import Experiment
from runner.definitions.dialects import KEY, measure_of, read_dialects
from runner.definitions.fields import FIELDS
from runner.definitions.project import files, find, project_root, refuse_twins
from runner.definitions.published import read_published
from runner.definitions.settings import Settings, settings_of
from runner.definitions.skips import DEVICES, Skip, read_skips

__all__ = ["DEVICES", "KEYS", "Experiment", "Skip", "files", "find", "load", "project_root"]

KEYS = (*FIELDS, KEY, "args", "program_args", "matrix", "skip", "baseline", "published")


def load(path: Path, root: Path, settings: Settings | None = None) -> Experiment:
    """Read and check one definition; RequestError with file:line if anything in it is wrong.

    Settings that are not written yet may stand in for those of the project's files.
    """
    document = yaml_reader.read(path)
    if not isinstance(document.values, dict):
        document.fail(f"a definition is a mapping with the keys {', '.join(KEYS)}")
    document.only_keys(KEYS)
    refuse_twins(path, root)
    matrix = read_matrix(document)
    baseline = dict(read_mapping(document, "baseline"))
    check_axes(document, matrix, baseline, "baseline")
    values = {key: field.read(document, key) for key, field in FIELDS.items()}
    dialects = read_dialects(document, root)
    values["measure"] = measure_of(document, values["measure"], dialects)
    experiment = Experiment(
        **values,
        dialects=dialects,
        args=read_args(document, matrix),
        program_args=read_program_args(document, matrix),
        matrix=matrix,
        skip=read_skips(document, matrix),
        baseline=baseline,
        published=read_published(document, matrix),
        path=path,
        root=root,
        settings=settings or settings_of(root),
    )
    consistency.check(document, experiment)
    return experiment
