"""The files behind a script: where its imports are, how to start it, and how many processes it trains with.

Paths are relative to the repository, with slashes.
"""

import importlib.util
import re
import sys
from functools import cached_property, lru_cache
from pathlib import Path

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.definitions.definition import LONGEST_PROGRAM, PROGRAM, WORD
from runner.definitions.sources import read_imported
from runner.tools.init import source
from runner.tools.init.source import ACROSS, FRAMEWORKS, SHOWN, Sign, Source

USUAL_PLACES = ("", "src", "lib", "python")
"""Folders that usually hold a repository's packages; the first is the repository itself."""
_LIGHTNING = {"lightning", "pytorch_lightning"}
_TRAINERS = {"transformers", "trl", "sentence_transformers", "setfit"}


class Modules:
    """The files that a script consists of. Raises RequestError if Python cannot parse a file.

    `places` maps top-level names of imports to the folders that hold the modules. Modules beside the script are left
    out.
    """

    def __init__(self, root: Path, script: str) -> None:
        self.root, self.script, self.folder = root, script, script.rpartition("/")[0]
        self.places: dict[str, str] = {}
        self.files: list[Source] = []
        self.itself = source.read(root / script)
        further: dict[str, str] | None = None
        while further is None or further:
            self.places |= further or {}
            search = tuple(root / place for place in dict.fromkeys(self.places.values()))
            self.files = [source.read(path) for path in read_imported(root, root / script, search)]
            names = {name for file in self.files for name in file.imports} - self.places.keys()
            further = {name: place for name in sorted(names) if (place := self._place(name)) is not None}

    @cached_property
    def signs(self) -> set[str]:
        """Signs that any of the files trains a model."""
        return {sign for file in self.files for sign in file.signs}

    @cached_property
    def frameworks(self) -> set[str]:
        """The frameworks that the files import."""
        return {name for file in self.files for name in file.imports} & FRAMEWORKS

    @property
    def why(self) -> str:
        """Why the script looks like a training, as text for the user."""
        signs = [sign for sign in SHOWN if sign in self.signs]
        words = [f"imports {', '.join(sorted(self.frameworks))}"] if self.frameworks else []
        return "; ".join([*words, *([f"has {', '.join(signs)}"] if signs else [])]) or "as named"

    @property
    def spawns(self) -> bool:
        """Whether the script itself starts its processes: by spawn if it joins a process group, else by torchrun."""
        return Sign.SPAWN in self.signs if Sign.GROUP in self.signs else Sign.LAUNCH in self.itself.signs

    @property
    def devices(self) -> str | None:
        """The argument `devices` of Lightning's Trainer, as written."""
        return next((file.devices for file in self.files if file.devices is not None), None)

    @cached_property
    def layout(self) -> tuple[bool, str]:
        """Whether torchrun may start several processes of the script, and why."""
        signs, devices = self.signs, self.devices
        if Sign.SPAWN in signs or self.spawns:
            how = "spawn" if Sign.SPAWN in signs else Sign.LAUNCH
            return False, f"the script starts its processes itself ({how})"
        if self.frameworks & _LIGHTNING and signs & {Sign.TRAINER, Sign.FIT}:
            if devices and (devices.isdigit() or devices.startswith("[")) and "WORLD_SIZE" not in devices:
                return False, f"the Trainer gets devices={devices}; take WORLD_SIZE instead to allow 1x2"
            return True, "Lightning divides the work among processes"
        if sign := next((sign for sign in ACROSS if sign in signs), None):
            return True, f"the script divides the work among processes ({sign})"
        if Sign.TRAINER in signs and self.frameworks & _TRAINERS:
            return True, "the Trainer divides the work among processes"
        return False, "add 1x2 once the script calls init_process_group() and trains with DDP"

    @property
    def cpu_alone(self) -> bool:
        """Whether the script trains with only one process on a CPU, as Lightning does by default."""
        return "Lightning" in self.layout[1] and self.devices in (None, "'auto'", "-1", "'-1'")

    def _place(self, name: str) -> str | None:
        if self._is_module(self.folder, name) or _is_installed(name, self.root):
            return None
        above = [str(parent) for parent in Path(self.folder).parents] if self.folder else []
        places = ["" if place == "." else place for place in (*above, *USUAL_PLACES)]
        return next((place for place in places if place != self.folder and self._is_module(place, name)), None)

    def _is_module(self, place: str, name: str) -> bool:
        path = self.root / place / name
        return path.with_name(f"{name}.py").is_file() or any(path.glob("*.py"))


@lru_cache(maxsize=4_096)
def _is_installed(name: str, root: Path) -> bool:
    if name in sys.stdlib_module_names:
        return True
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return False
    if spec is None or spec.origin is None:  # missing, or a folder without __init__.py
        return False
    return not Path(spec.origin).is_relative_to(root) or "site-packages" in spec.origin


def placement(modules: Modules) -> tuple[str, tuple[str, ...]]:
    """Choose how to start a script: as the file `scripts/train.py`, or as the module `mypkg.train`.

    Returns the program's name and the folders of its imports. Raises RequestError if no definition can hold the name.
    """
    script, top = modules.script, _top(modules)
    places = set(modules.places.values()) - {top}
    if top is None:
        name, path, form = script, sorted(place or "." for place in places), PROGRAM
    else:
        name = script.removesuffix(".py").removeprefix(top).strip("/").replace("/", ".")
        # torchrun itself puts the project's folder on the path when it starts a module.
        path, form = [place for place in (top, *sorted(places)) if place], rf"{WORD}(\.{WORD})+"
    # A file name that is not UTF-8 is not printable.
    if len(name) > LONGEST_PROGRAM or not name.isprintable() or not re.fullmatch(form, name):
        most = f"at most {LONGEST_PROGRAM} characters of UTF-8, without backslashes and line breaks"
        package = "; modules: words separated by dots" * (top is not None)
        raise RequestError(f"{one_line(script)} has a name that no definition can hold: rename it ({most}{package})")
    return name, tuple(path)


def _top(modules: Modules) -> str | None:
    root, folder, level = modules.root, modules.folder, modules.itself.level
    parts = folder.split("/") if folder else []
    if level > len(parts):
        name = one_line(f"{root.name}/{modules.script}")
        above = one_line(root.parent)
        raise RequestError(
            f"{name} imports from a package that starts above this folder: run `runner init {name}` in {above}"
        )
    if level:
        outside = len(parts)
        while outside and root.joinpath(*parts[:outside], "__init__.py").is_file():
            outside -= 1
        return "/".join(parts[: min(outside, len(parts) - level)])  # __init__.py may be missing
    # A script may import its package by name: `from mypkg.data import ...` in src/mypkg/train.py.
    for name, place in modules.places.items():
        if name in modules.itself.imports and f"{folder}/".startswith(f"{place}/{name}/".lstrip("/")):
            return place
    return None
