"""Derive a project's root, script and new files without starting anything."""

import json
import os
import re
import shlex
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runner.core import git
from runner.core.errors import RequestError
from runner.core.text import listed, one_line
from runner.core.yaml_reader import scalar
from runner.core.yaml_writer import to_yaml
from runner.definitions import experiment as definition
from runner.definitions import program as programs
from runner.definitions.args import REST, unfit, wrong_name
from runner.definitions.choices import read_change
from runner.definitions.definition import NAME, NAME_FORM, Experiment
from runner.definitions.program import Program, as_path
from runner.definitions.settings import OWN_FILE, PACKAGE, Settings, nearest, read_text
from runner.records.observed import SAMPLE_SECONDS
from runner.tools.init import source
from runner.tools.init.modules import Modules, placement
from runner.tools.init.source import Sign
from runner.tools.init.trial import Reading

INIT, RUN = "runner init", "runner run"
LIMIT_SECONDS = 1800
_FOLDERS = (PACKAGE, "runner-definitions")
"""Folders for definitions. The first folder that is missing or holds only definitions is taken."""
_GENERIC = {"main", "__main__", "run", "script", "app", "cli"}
"""Names of scripts that are too general to name an experiment."""
_LONGEST_NAME = 40
_GIT_SECONDS = 20
_TRAINING = {Sign.BACKWARD, Sign.FIT, Sign.TRAINER}
_STARTS = re.compile(rb"__main__|^(?:for|while|with)\b|^[A-Za-z_](?:.*=[ \t]*)?[\w.]*\(", re.MULTILINE)
"""Matches files that may do something when started. Matching is much faster than parsing."""
_FOREIGN = {"tests", "test", "docs", "build", "dist", "results", "node_modules", "site-packages", "__pycache__"}
_NO_PROGRAM = re.compile(r"setup\.py|conftest\.py|test_.*|.*_test\.py")
_DEFINITION = re.compile(r"(?s)^program:.*^matrix:|^matrix:.*^program:", re.MULTILINE)
_ABOUT = "# A project of the runner; its settings are definitions, path, image, dockerfile, code, with.<target>.\n"


@dataclass(frozen=True)
class Proposal:
    """A script, and the definition and project proposed for it."""

    settings: Settings
    modules: Modules
    name: str
    program: Program
    args: dict[str, Any]

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self.settings.root

    @property
    def path(self) -> Path:
        """The path of the definition."""
        return self.settings.folder / f"{self.name}.yaml"

    def experiment(self, reading: Reading, folder: Path) -> Experiment:
        """Write the proposed definition as a draft into a temporary folder, and load the draft."""
        draft = folder / self.path.name
        draft.write_text(self.text(reading), "utf-8")
        return definition.load(draft, self.root, self.settings)

    def text(self, reading: Reading) -> str:
        """Return the definition's text."""
        return "".join(f"{line}\n" for line in self._lines(reading))

    def _lines(self, reading: Reading) -> Iterator[str]:
        program, (is_parallel, why) = self.program, self.modules.layout
        torchrun = ["torchrun", "--standalone", f"--nproc-per-node={1 + is_parallel}"]
        launcher = ["python"] if self.modules.spawns else torchrun
        words = shlex.join([*launcher, *program.words, *program.argv(self.args)])
        search = f"PYTHONPATH={shlex.quote(':'.join(program.search))} " if program.search else ""
        yield f"# By hand:  {one_line(search + words)}"
        yield _pair("name", self.name)
        several = "with one process and with two" if is_parallel else "with one process"
        yield _pair("summary", one_line(f"How long does {program.name} take {several}?", 300))
        yield _pair("program", program.name)
        if self.modules.spawns:
            yield "launcher: python  # the script starts its processes itself"
        if reading.dialects == ("none",):
            yield "dialect: none  # the output is not read; docs/dialects.md lists dialects and how to write one"
        elif reading.dialects:
            yield f"dialect: {', '.join(reading.dialects)}  # reads {', '.join(reading.fields)}"
        if self.args:
            yield "args:"
            yield from (f"  {_pair(key, value)}" for key, value in self.args.items())
        yield f"# runner plan {self.name} --probe shows further args; a list below matrix makes an axis of one."
        yield "matrix:"
        yield f"  layout: [{'1x1, 1x2' if is_parallel else '1x1'}]  # nodes x processes; {one_line(why, 300)}"
        if self.modules.cpu_alone:
            yield "skip:"
            reason = "Lightning starts as many processes as its argument devices says, which is one on a CPU"
            yield f"  - {{layout: 1x2, when: cpu, why: '{reason}'}}"
        uncounted = one_line(reading.unobserved, 300)
        how = f"or run time, if samples are not counted: {uncounted}" if uncounted else "counted in the processes"
        yield f"measure: {reading.measure}" + f"  # {how}" * (reading.measure == SAMPLE_SECONDS)
        yield "repeat: 3  # runs per cell; a claim needs 3"
        yield f"timeout_seconds: {LIMIT_SECONDS}  # time limit of a run"

    def files(self, reading: Reading) -> dict[Path, str]:
        """Return the text of the definition. If the project has no settings file, also return the text of one."""
        texts = {self.path: self.text(reading)}
        if self.settings.source is None:
            values = {"definitions": self.settings.definitions, "path": list(self.settings.path)}
            rows = [f"{key} = {json.dumps(values[key], ensure_ascii=False)}\n" for key in values if values[key]]
            texts[self.root / OWN_FILE] = "".join([_ABOUT, *rows])
        return texts


def _pair(key: str, value: Any) -> str:
    return to_yaml({key: value}).rstrip("\n")


def propose(
    here: Path, script: str | None, name: str | None, words: list[str], line: list[str], *, unsaved: bool = False
) -> Proposal:
    """Return the proposal for the repository around `here`. Raises RequestError if no definition can be written.

    `script` and `name` are None if the user gave none. `words` has arguments as `arg=value`, and `line` has arguments
    as on the script's own command line. If `unsaved`, the proposal is never written into the project.
    """
    settings, repository = project(here)
    if unsaved and script is not None:
        named = Path(os.path.normpath(here / script))
        if os.path.isdir(named) and not (named / "__main__.py").is_file():  # noqa: PTH112 - a long name is no error
            return propose(named, None, name, words, line, unsaved=True)
        if os.path.isfile(named) and not named.is_relative_to(settings.root):  # noqa: PTH113
            return propose(named.parent, str(named), name, words, line, unsaved=True)
    command = RUN if unsaved else INIT
    modules = _named(script, here, settings.root) if script else choose(settings.root, here, repository, command)
    started, path = placement(modules)
    chosen_name = _name_of(modules.script, settings.root, name)
    if unsaved:
        settings = replace(settings, path=tuple(dict.fromkeys((*settings.path, *path))))
    elif settings.source is None:
        settings = replace(settings, path=path, definitions=_definitions(settings.root))
    elif missing := [place for place in path if place not in {*settings.path, "." in settings.path and ""}]:
        wanted = json.dumps([*settings.path, *missing], ensure_ascii=False)
        msg = f"{settings.source}: the script imports from {', '.join(missing)}/: set path = {wanted} there first"
        raise RequestError(one_line(msg))
    there = settings.folder / f"{chosen_name}.yaml"
    taken = [path for path in definition.files(settings.root) if path.stem == chosen_name] if settings.source else []
    if not unsaved and (taken or there.exists()):
        path_taken = one_line((taken or [there])[0].relative_to(settings.root))
        raise RequestError(f"{path_taken} exists already: give another name, {INIT} --name {chosen_name}-2")
    program = programs.find(settings.root, started, settings)
    args = {**dict(map(read_change, words)), **of_line(program, line)}
    return Proposal(settings, modules, chosen_name, program, args)


def of_line(program: Program, line: list[str]) -> dict[str, Any]:
    """Parse a command line into named args. If such args would give another line, return all words under REST."""
    args: dict[str, Any] = {}
    words = deque(line)
    while words:
        name = words.popleft()
        name = name.removeprefix("--") or name
        value: Any = True
        if words and not words[0].startswith("-"):
            text = words.popleft()
            number = scalar(text)
            is_number = isinstance(number, int | float) and not isinstance(number, bool) and unfit(number) is None
            value = number if is_number and str(number) == text else text  # `007` and `1e-3` stay texts
        if name in args:
            value = [*(args[name] if isinstance(args[name], list) else [args[name]]), value]
        args[name] = value
    is_read = not any(map(wrong_name, args)) and program.argv(args) == line
    return args if is_read else {REST: line}


def project(here: Path) -> tuple[Settings, git.Repository | None]:
    """Return the project around a folder, and its git repository, or None if there is no repository.

    If there is no project, or only one outside of the repository, the folder becomes a new project.
    """
    try:
        repository = git.find(here)
    except git.GitError as error:
        raise RequestError(f"{one_line(here)}: {error}") from None
    settings = nearest(here)
    if settings is None or (repository and not settings.root.resolve().is_relative_to(repository.top.resolve())):
        settings = Settings(here)
    return settings, repository


def choose(root: Path, here: Path, repository: git.Repository | None, command: str) -> Modules:
    """Return the training script nearest to the top of `here`. Raises RequestError unless exactly one is nearest."""
    scripts: dict[str, Modules] = {}
    for name in filter(_may_train, _files(here, repository)):
        path = here / name
        with suppress(RequestError):  # Python cannot parse the script or an import
            if path.is_file() and _STARTS.search(path.read_bytes()) and source.read(path).is_program:
                modules = Modules(root, path.relative_to(root).as_posix())
                if modules.signs & _TRAINING and modules.frameworks:
                    scripts[name] = modules
    # Prefer scripts that train themselves to those that import the training.
    scripts = {name: each for name, each in scripts.items() if each.itself.signs & _TRAINING} or scripts
    depths = {name: sum(folder != "src" for folder in name.split("/")) for name in scripts}
    nearest_ones = sorted(name for name in scripts if depths[name] == min(depths.values()))
    if len(nearest_ones) == 1:
        return scripts[nearest_ones[0]]
    if nearest_ones:
        first = one_line(shlex.quote(as_path(os.path.relpath(here / nearest_ones[0]))))
        names = listed(one_line(name, 100) for name in nearest_ones)
        raise RequestError(f"{len(nearest_ones)} scripts may be the training: {names}; name one: {command} {first}")
    raise RequestError(f"no training script found here; name one: {command} path/to/train.py")


def _files(here: Path, repository: git.Repository | None) -> Iterator[str]:
    """Yield the files below a folder, except those that git ignores.

    Without a repository, skip hidden folders, virtual environments and folders such as `tests` or `build` instead.
    """
    if repository:
        words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
        yield from os.fsdecode(repository.ask(*words, seconds=_GIT_SECONDS)).split("\0")
        return
    for folder, folders, names in os.walk(here):
        is_environment = "pyvenv.cfg" in names
        folders[:] = [] if is_environment else [name for name in folders if name[0] != "." and name not in _FOREIGN]
        yield from (os.path.relpath(os.path.join(folder, name), here) for name in names if not is_environment)  # noqa: PTH118


def _may_train(name: str) -> bool:
    *folders, file = name.split("/")
    is_foreign = any(folder[:1] == "." or folder in _FOREIGN for folder in folders)
    return file.endswith(".py") and not is_foreign and not _NO_PROGRAM.fullmatch(file)


def _named(word: str, here: Path, root: Path) -> Modules:
    path = Path(os.path.normpath(here / word))
    name = one_line(word, 200)
    if path.is_dir():
        path = path / "__main__.py"
    if not os.path.isfile(path) or path.suffix != ".py":  # noqa: PTH113 - a long name is no error
        raise RequestError(f"no Python script {name} here ({one_line(path)}): name one by its path")
    if not path.is_relative_to(root):
        raise RequestError(f"{name} is not below {one_line(root)}: run `runner init` in its own repository")
    return Modules(root, path.relative_to(root).as_posix())


def _name_of(script: str, root: Path, given: str | None) -> str:
    """Return the experiment's name: the given name, else the script's.

    If the script's name is generic, such as `main`, the folder's name is used.
    """
    if given is not None:
        if not re.fullmatch(NAME, given):
            raise RequestError(f"--name {one_line(given, 100)} has to be {NAME_FORM}, such as {_valid(given)}")
        return given
    *folders, file = script.split("/")
    stem = file.removesuffix(".py")
    if stem in _GENERIC:
        stem = next((folder for folder in reversed(folders) if folder not in ("src", "scripts")), "")
        stem = stem or (root.name if file == "__main__.py" else file.removesuffix(".py"))
    return _valid(stem)


def _valid(word: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", word.lower().encode("ascii", "ignore").decode()).strip("-")
    return name[:_LONGEST_NAME].strip("-") or "train"


def _definitions(root: Path) -> str:
    for name in _FOLDERS:
        paths = (root / name).glob("*") if (root / name).exists() else ()
        if all(path.suffix == ".yaml" and _DEFINITION.search(read_text(path)) for path in paths):
            return name
    raise RequestError(
        f'{", ".join(_FOLDERS)} hold other files: set definitions = "FOLDER" in {one_line(root / OWN_FILE)}'
    )
