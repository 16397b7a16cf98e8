"""Which script of a repository trains: the one file nearest to its top that does, or none."""

import os
import re
import shlex
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from runner.core import git
from runner.core.errors import RequestError
from runner.core.text import listed, one_line
from runner.definitions.program import as_path
from runner.tools.init import source
from runner.tools.init.modules import Modules
from runner.tools.init.source import Sign
from trainkit.files import is_file, read_file

MOST_FILES = 4_000
_GIT_SECONDS = 20
_TRAINING = {Sign.BACKWARD, Sign.FIT, Sign.TRAINER}
_STARTS = re.compile(rb"__main__|^(?:for|while|with)\b|^[A-Za-z_](?:.*=[ \t]*)?[\w.]*\(", re.MULTILINE)
"""What a file has that may do something when it is started; searching for it is much faster than parsing."""
_FOREIGN = {"tests", "test", "docs", "build", "dist", "results", "node_modules", "site-packages", "__pycache__"}
_NO_PROGRAM = re.compile(r"setup\.py|conftest\.py|test_.*|.*_test\.py")


def choose(root: Path, here: Path, repository: git.Repository | None, command: str) -> Modules:
    """Return the training script below `here`, by its path from `root`; RequestError unless there is exactly one."""
    found: dict[str, Modules] = {}
    for name in islice(filter(_may_be_own, _files(here, repository)), MOST_FILES):
        path = here / name
        if is_file(path) and path.lstat().st_size <= source.LARGEST and _STARTS.search(read_file(path, source.LARGEST)):
            own, modules = source.read(path), Modules(root, path.relative_to(root).as_posix())
            if own and (own.guarded or own.works) and modules.signs & _TRAINING and modules.frameworks:
                found[name] = modules
    itself = {name: modules for name, modules in found.items() if modules.files[modules.script].signs & _TRAINING}
    found = itself or found  # else it imports what trains
    depths = {name: sum(folder != "src" for folder in name.split("/")) for name in found}
    nearest = sorted(name for name in found if depths[name] == min(depths.values()))
    if len(nearest) == 1:
        return found[nearest[0]]
    if nearest:
        first = one_line(shlex.quote(as_path(os.path.relpath(here / nearest[0]))))
        names = listed(one_line(name, 100) for name in nearest)
        raise RequestError(f"{len(nearest)} scripts may be the training: {names}; name one: {command} {first}")
    raise RequestError(f"no Python file here trains and can be run; name a script: {command} path/to/train.py")


def _files(here: Path, repository: git.Repository | None) -> Iterator[str]:
    """Yield the files below a folder: what git tracks or would track, else all but what is hidden or installed."""
    if repository:
        words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
        yield from os.fsdecode(repository.ask(*words, seconds=_GIT_SECONDS)).split("\0")
        return
    for folder, folders, names in os.walk(here):
        is_environment = "pyvenv.cfg" in names
        folders[:] = [] if is_environment else [name for name in folders if name[0] != "." and name not in _FOREIGN]
        yield from (os.path.relpath(os.path.join(folder, name), here) for name in names if not is_environment)  # noqa: PTH118


def _may_be_own(name: str) -> bool:
    *folders, file = name.split("/")
    is_foreign = any(folder[:1] == "." or folder in _FOREIGN for folder in folders)
    return file.endswith(".py") and not is_foreign and not _NO_PROGRAM.fullmatch(file)
