"""What the image of a project has to install, read from the project's files without running any of them."""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runner.core.text import one_line
from runner.definitions.settings import SHARED_FILE
from runner.tools.init.settings_text import read_toml
from trainkit.files import is_file, read_file

LISTED = "requirements.txt"
LARGEST_BYTES = 1_000_000
MOST_FILES = 100
_CONDA = re.compile(r"(conda-)?env(ironment)?([-_.][\w.-]+)?\.ya?ml")
_NOT_READ = ("setup.py", "setup.cfg", "Pipfile")
_INCLUDES = re.compile(r"(?:-r|-c|--requirement|--constraint)[ =]*(\S.*)")
_LOCAL = re.compile(r"(-e|--editable)\b|\.|/|file:|[^#]*@ *file:|[\w-]+/")
_TORCH = re.compile(r"torch *(\[[^]]*])? *(===?|>=?|~=) *([0-9]+(?:\.[0-9]+)*)")
_PLAIN = re.compile(r"[\w./ +-]+")


@dataclass
class Requirements:
    """What pip is given, and what it needs for that.

    Args:
        words: arguments of `install.sh`: a file of requirements, or pyproject.toml.
        files: what pip reads, as paths from the project's folder.
        whole: whether it needs the project itself, for example for `-e .`.
        git: whether it fetches something by git.
        notes: what a person should know.
    """

    words: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    whole: bool = False
    git: bool = False
    notes: list[str] = field(default_factory=list)


def find_requirements(root: Path, torch: str) -> Requirements:
    """Read what a project says of its packages; `torch` is the version in the base images, empty if nobody knows."""
    found = Requirements()
    if is_file(root / LISTED):
        found.words = [LISTED]
        _follow(root, LISTED, found, torch)
    elif (names := _of_pyproject(root, found)) is not None:
        found.words, found.files = [SHARED_FILE], [SHARED_FILE]
        for name in names:
            _look(name, f"{SHARED_FILE}: '{one_line(name, 100)}'", found, torch)
    else:
        other = [name for name in _NOT_READ if is_file(root / name)]
        unread = f"; {' and '.join(other)} is not read" if other else ""
        found.notes.append(f"no {LISTED} and no [project.dependencies]: the image has torch and the kit{unread}")
    for name in sorted(path.name for path in root.iterdir() if _CONDA.fullmatch(path.name.lower())):
        found.notes.append(f"{one_line(name)} is for conda and not read: name its packages in {LISTED}")
    return found


def _of_pyproject(root: Path, found: Requirements) -> list[str] | None:
    """Return the dependencies of a project; None if its pyproject.toml lists none."""
    values = read_toml(root / SHARED_FILE)
    project, tool = values.get("project"), values.get("tool")
    listed = project.get("dependencies") if isinstance(project, dict) else None
    if isinstance(listed, list) and all(isinstance(line, str) for line in listed):
        return listed
    if isinstance(tool, dict) and "poetry" in tool:
        found.notes.append(f"the dependencies of Poetry are not read: poetry export --output {LISTED}")
    return None


def _follow(root: Path, first: str, found: Requirements, torch: str) -> None:
    """Read a file of requirements and those that it includes."""
    pending = [first]
    while pending and len(found.files) < MOST_FILES:
        name = pending.pop(0)
        if name in found.files:
            continue
        found.files.append(name)
        if not _PLAIN.fullmatch(name):
            found.whole = True
        for number, line in _lines(root / name):
            place = f"{one_line(name)}:{number}: '{one_line(line, 100)}'"
            if included := _INCLUDES.match(line):
                inner = posixpath.normpath(posixpath.join(posixpath.dirname(name), included[1].strip().strip("\"'")))
                if not inner.startswith(("/", "../")) and is_file(root / inner):
                    pending.append(inner)
                elif "://" not in line:
                    found.notes.append(f"{place}: there is no such file in the project: no image can be built")
            else:
                _look(line, place, found, torch)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that say something, with their numbers; Windows' shells write UTF-16."""
    try:
        data = read_file(path, LARGEST_BYTES)
    except OSError:
        return
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    for number, line in enumerate(data.decode("utf-16" if wide else "utf-8-sig", "replace").splitlines(), 1):
        text = re.sub(r"(^|\s)#.*", "", line).strip()
        if text:
            yield number, text


def _look(line: str, place: str, found: Requirements, torch: str) -> None:
    found.whole |= bool(_LOCAL.match(line))
    found.git |= "git+" in line
    asked = _TORCH.match(line)
    if asked is None or not torch:
        return
    held, least = ([int(part) for part in version.split(".")] for version in (torch, asked[3]))
    is_same = held[: len(least)] == least
    if not {"==": is_same, "===": is_same, ">": held > least}.get(asked[2], held >= least):
        way_out = "name other ones in containers/image.lock, or no image can be built"
        found.notes.append(f"{place}, and the base images hold torch {torch}: {way_out}")
