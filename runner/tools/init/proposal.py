"""All that can be known of a repository without starting anything: its root, its script, and what would be written."""

import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runner.core import git
from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.definitions import experiment as definition
from runner.definitions import program as programs
from runner.definitions.choices import read_change
from runner.definitions.definition import NAME, NAME_FORM, Experiment
from runner.definitions.program import Program
from runner.definitions.settings import OWN_FILE, PACKAGE, Settings, nearest, read_text
from runner.tools.init import source
from runner.tools.init.arguments import of_line
from runner.tools.init.choose import choose
from runner.tools.init.definition_text import definition_lines
from runner.tools.init.failure import INIT, RUN
from runner.tools.init.modules import Modules, placement
from runner.tools.init.reading import Reading
from runner.tools.init.traits import Traits, traits
from trainkit.files import is_file

_FOLDERS = (PACKAGE, "runner-definitions")
"""Where definitions may be; the first that is free, or that holds definitions already."""
_GENERIC = {"main", "__main__", "run", "script", "app", "cli"}
"""Names of scripts that say nothing of an experiment."""
_LONGEST_NAME = 40
_DEFINITION = re.compile(r"(?s)^program:.*^matrix:|^matrix:.*^program:", re.MULTILINE)
_ABOUT = "# A project of the runner; its settings are definitions, path, image, dockerfile, code, with.<target>.\n"


@dataclass(frozen=True)
class Proposal:
    """A script, and the project that it becomes a definition of."""

    settings: Settings
    modules: Modules
    traits: Traits
    name: str
    program: Program
    args: dict[str, Any]

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self.settings.root

    @property
    def path(self) -> Path:
        """The file of the definition."""
        return self.settings.folder / f"{self.name}.yaml"

    def experiment(self, reading: Reading, folder: Path) -> Experiment:
        """Load the definition as it would be written, from a file in a folder for temporary files."""
        draft = folder / self.path.name
        draft.write_text(self.text(reading), "utf-8")
        return definition.load(draft, self.root, self.settings)

    def text(self, reading: Reading) -> str:
        """Write the definition's text."""
        lines = definition_lines(self.name, self.program, self.args, self.traits, reading)
        return "".join(f"{line}\n" for line in lines)

    def files(self, reading: Reading) -> dict[Path, str]:
        """Write the text of each file: of the definition, and of the settings if the folder has none."""
        found = {self.path: self.text(reading)}
        if self.settings.source is None:
            values = {"definitions": self.settings.definitions, "path": list(self.settings.path)}
            rows = [f"{key} = {json.dumps(values[key], ensure_ascii=False)}\n" for key in values if values[key]]
            found[self.root / OWN_FILE] = "".join([_ABOUT, *rows])
        return found


def propose(
    here: Path, script: str | None, name: str | None, words: list[str], line: list[str], *, unsaved: bool = False
) -> Proposal:
    """Look at the repository that a person is in; RequestError if no definition can be written.

    Script and name are those that the person gives, if any; words are `arg=value` for the script, and a line has its
    arguments as its own command line has them. Of one that stays `unsaved` nothing is to be written.
    """
    settings, repository = project(here)
    command = RUN if unsaved else INIT
    if unsaved and script is not None:
        named = Path(os.path.normpath(here / script))
        if os.path.isdir(named) and not is_file(named / "__main__.py"):  # noqa: PTH112 - a long name is no error
            return propose(named, None, name, words, line, unsaved=True)
        if os.path.isfile(named) and not named.is_relative_to(settings.root):  # noqa: PTH113
            return propose(named.parent, str(named), name, words, line, unsaved=True)
    found = _named(script, here, settings.root) if script else choose(settings.root, here, repository, command)
    started, path = placement(found)
    chosen_name = _name_of(found.script, settings.root, name)
    if unsaved:
        settings = replace(settings, path=tuple(dict.fromkeys((*settings.path, *path))))
    elif settings.source is None:
        settings = replace(settings, path=path, definitions=_definitions(settings.root))
    elif missing := [place for place in path if place not in {*settings.path, "." in settings.path and ""}]:
        wanted = json.dumps([*settings.path, *missing], ensure_ascii=False)
        msg = f"{settings.source}: the script imports from {', '.join(missing)}/: write path = {wanted} there first"
        raise RequestError(one_line(msg))
    if not unsaved:
        _refuse_taken(settings, chosen_name)
    program = programs.find(settings.root, started, settings)
    args = {**dict(map(read_change, words)), **of_line(program, line)}
    return Proposal(settings, found, traits(found), chosen_name, program, args)


def script_of(here: Path) -> tuple[Path, Modules]:
    """Return the project that a folder is in, and the script that trains there."""
    settings, repository = project(here)
    return settings.root, choose(settings.root, here, repository, RUN)


def project(here: Path) -> tuple[Settings, git.Repository | None]:
    """Return the project that a folder is in, or will be: one of another repository around this one does not count."""
    try:
        repository = git.find(here)
    except git.GitError as error:
        raise RequestError(f"{one_line(here)}: {error}") from None
    found = nearest(here)
    if found is None or (repository and not found.root.resolve().is_relative_to(repository.top.resolve())):
        found = Settings(here)
    return found, repository


def _named(word: str, here: Path, root: Path) -> Modules:
    """Return the script of a path that a person names; RequestError if it cannot be started."""
    path = Path(os.path.normpath(here / word))
    name = one_line(word, 200)
    if path.is_dir():
        path = path / "__main__.py"
    if not os.path.isfile(path):  # noqa: PTH113 - a long name is no error
        raise RequestError(f"no script {name} here ({one_line(path)}): name one by its path")
    if path.suffix != ".py":
        raise RequestError(f"{name} is no Python script: name the one that trains (of a notebook, save it as a script)")
    if not path.is_relative_to(root):
        raise RequestError(f"{name} is not below {one_line(root)}: run `runner init` in its own repository")
    if isinstance(why := source.parse(path), str):
        raise RequestError(f"{name} cannot be read: {one_line(why)}; mend that, or name another script")
    return Modules(root, path.relative_to(root).as_posix())


def _name_of(script: str, root: Path, given: str | None) -> str:
    """Return the name of the experiment: as given, or after the script, or its folder if every script is called so."""
    if given is not None:
        if not re.fullmatch(NAME, given):
            wrong = f"--name {one_line(given, 100)} has to be {NAME_FORM}"
            raise RequestError(f"{wrong}: for example --name {_valid(given)}")
        return given
    *folders, file = script.split("/")
    stem = file.removesuffix(".py")
    if stem in _GENERIC:
        stem = next((folder for folder in reversed(folders) if folder not in ("src", "scripts")), "")
        stem = stem or (root.name if file == "__main__.py" else file.removesuffix(".py"))
    return _valid(stem)


def _valid(word: str) -> str:
    """Make a valid name of any word."""
    return slug(word)[:_LONGEST_NAME].strip("-") or "train"


def slug(word: str) -> str:
    """Write a word in lower-case letters, digits and hyphens; empty if it has no letter for that."""
    return re.sub(r"[^a-z0-9]+", "-", word.lower().encode("ascii", "ignore").decode()).strip("-")


def _definitions(root: Path) -> str:
    """Choose the folder of the definitions: one that holds nothing else."""
    for name in _FOLDERS:
        paths = (root / name).glob("*") if (root / name).exists() else ()
        if all(path.suffix == ".yaml" and _DEFINITION.search(read_text(path)) for path in paths):
            return name
    raise RequestError(
        f'{", ".join(_FOLDERS)} hold other things: say definitions = "FOLDER" in {one_line(root / OWN_FILE)}'
    )


def _refuse_taken(settings: Settings, name: str) -> None:
    taken = [path for path in definition.files(settings.root) if path.stem == name] if settings.source else []
    path = settings.folder / f"{name}.yaml"
    if path.exists() or taken:
        there = one_line((taken or [path])[0].relative_to(settings.root))
        raise RequestError(
            f"{there} is there already, and stays as it is: give the new one another name, runner init --name {name}-2"
        )
