"""`rendered.yaml`: which files are rendered, and of which experiment, layout and device."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from runner.core import yaml_reader
from runner.core.layout import Layout
from runner.core.yaml_reader import Document

LISTING = "rendered.yaml"
_KEYS = ("layout", "device", "what")
_DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Rendered:
    """One file: its name without ending, what it is, and what it runs."""

    name: str
    experiment: str
    layout: str
    device: str
    what: str


@dataclass(frozen=True)
class Listing:
    """Everything that is rendered."""

    compose: list[Rendered]
    kubernetes: list[Rendered]
    default: str
    """The job that the kustomization names."""
    slurm: list[Rendered] = field(default_factory=list)


def read_listing(root: Path) -> Listing:
    """Read `rendered.yaml`; RequestError with file:line for whatever is wrong with it."""
    document = yaml_reader.read(root / LISTING)
    _mapping(document)
    document.only_keys(("compose", "kubernetes", "slurm"))
    for part, word in (("compose", "experiment"), ("kubernetes", "default")):
        _mapping(document, part)
        document.only_keys((word, "files"), part)
        _text(document, part, word)
        _mapping(document, part, "files")
    values = document.values
    if "slurm" in values:
        _mapping(document, "slurm")
        document.only_keys(("files",), "slurm")
        _mapping(document, "slurm", "files")
    compose, kubernetes = values["compose"], values["kubernetes"]
    listing = Listing(
        [_rendered(document, compose["experiment"], "compose", name) for name in compose["files"]],
        [_rendered(document, None, "kubernetes", name) for name in kubernetes["files"]],
        kubernetes["default"],
        [_rendered(document, None, "slurm", name) for name in values.get("slurm", {}).get("files", ())],
    )
    if listing.default not in kubernetes["files"]:
        document.fail(f"'{listing.default}' is not one of the files", "kubernetes", "default")
    return listing


def _mapping(document: Document, *path: str) -> None:
    value = document.values
    for step in path:
        value = value.get(step)
    if not isinstance(value, dict):
        document.fail(f"'{path[-1] if path else LISTING}' has to be a mapping", *path)


def _text(document: Document, *path: str) -> str:
    value = document.values
    for step in path:
        value = value.get(step)
    if not isinstance(value, str):
        document.fail(f"'{path[-1]}' is missing, or not a text", *path)
    return str(value)


def _rendered(document: Document, experiment: str | None, part: str, name: str) -> Rendered:
    place = (part, "files", name)
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,49}", name):
        document.fail(f"'{name}': a file's name has small letters, digits and hyphens", *place)
    _mapping(document, *place)
    document.only_keys(_KEYS if experiment else ("experiment", *_KEYS), *place)
    layout, device, what = (_text(document, *place, key) for key in _KEYS)
    try:
        Layout.parse(layout)
    except ValueError as error:
        document.fail(str(error), *place, "layout")
    if device not in _DEVICES:
        document.fail(f"device '{device}' is not one of {', '.join(_DEVICES)}", *place, "device")
    return Rendered(name, experiment or _text(document, *place, "experiment"), layout, device, what)
