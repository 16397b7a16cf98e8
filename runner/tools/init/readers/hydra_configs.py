"""Hydra: `key=value` words, whose names stand in YAML files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runner.core import yaml_reader
from runner.core.errors import RequestError
from runner.definitions.options.option import Interface, Option
from runner.definitions.options.sources import Code, keywords, literal
from runner.tools.init.readers.styles import HYDRA
from trainkit.files import is_file, read_file

LARGEST_CONFIG = 1_000_000
MOST_KEYS = 5_000
MOST_GROUPS = 200
MARKS = frozenset({"hydra.main"})
_SUFFIX = ".yaml"


def read(code: Code) -> Interface:
    """Read the names of the primary configuration and of those that its `defaults` choose; there may be more."""
    options: dict[str, Option] = {}
    for source, call in code.every_call():
        if source.origin(call.func) == "hydra.main":
            given = keywords(call)
            folder = literal(given.get("config_path", call.args[0] if call.args else None))
            name = literal(given.get("config_name", call.args[1] if len(call.args) > 1 else None))
            if isinstance(name, str):
                place = source.path.parent / folder if isinstance(folder, str) else source.path.parent
                options.update(_primary(place, name.removesuffix(_SUFFIX)))
    return Interface("hydra", options, is_open=True, style=HYDRA)


def _primary(folder: Path, name: str) -> dict[str, Option]:
    values = _load(folder / f"{name}{_SUFFIX}")
    options: dict[str, Option] = {}
    for group, choice in _chosen(values.pop("defaults", None)):
        if group:
            options[group.replace("/", ".")] = Option(group, default=choice, style=HYDRA)
        path = folder.joinpath(*group.split("/"), choice.removesuffix(_SUFFIX) + _SUFFIX)
        inner = _load(path)
        inner.pop("defaults", None)
        # Its values stand below the key of its group, unless it says otherwise.
        is_global = not is_file(path) or b"@package _global_" in read_file(path, LARGEST_CONFIG)[:1_000]
        options.update(_options(inner, "" if is_global else group.replace("/", ".")))
    options.update(_options(values, ""))
    return options


def _chosen(entries: object) -> Iterator[tuple[str, str]]:
    """List the groups of a list of defaults with what is chosen of each; a file without a group has an empty one."""
    for entry in (entries if isinstance(entries, list) else [])[:MOST_GROUPS]:
        for named, choice in entry.items() if isinstance(entry, dict) else [("", entry)]:
            group = str(named).removeprefix("optional ")
            is_path = isinstance(choice, str) and choice != "_self_" and (group + choice).isprintable()
            if is_path and "@" not in group and not group.startswith("override "):
                yield group, choice


def _load(path: Path) -> dict[str, Any]:
    try:
        values = yaml_reader.read(path).values
    except RequestError:
        return {}
    return dict(values) if isinstance(values, dict) else {}


def _options(values: dict[str, Any], package: str) -> dict[str, Option]:
    """Make an option of every value that is no mapping, by its dotted name."""
    options: dict[str, Option] = {}
    pending, count = [(package, values)], 0
    while pending and count < MOST_KEYS:
        above, mapping = pending.pop()
        for key, value in list(mapping.items())[: MOST_KEYS - count]:
            count += 1
            name = f"{above}.{key}" if above else key
            if not name.replace(".", "_").isidentifier():
                continue
            if isinstance(value, dict) and value:
                pending.append((name, value))
            else:
                is_plain = isinstance(value, int | float) or (isinstance(value, str) and value.isprintable())
                options[name] = Option(name, default=value if is_plain else None, style=HYDRA)
    return options
