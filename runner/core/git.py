"""The one caller of git. It runs no program that a repository names: no filter, hook, monitor, transport or viewer.

The repository itself is only asked where it lies, what its settings are and what its names mean: `rev-parse` and
`config`. All else is asked of a repository of our own, in a folder for temporary files: it has the objects, a copy of
the index, and of the settings only those in `_SETTINGS`, none of which names a program. So what a filter would make of
a file is not known, and `View.filtered` says of which files.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from runner.core.errors import RequestError, reason_of
from runner.core.temporary import temporary_folder
from runner.core.text import listed, one_line
from trainkit import files

SECONDS = 10
CHECKOUT_SECONDS = 600
REGULAR, GITLINK = b"100", b"160000"
"""How the modes of regular files and of submodules begin."""
LARGEST_INDEX = 2_000_000_000
_BLOCK = 1 << 16
_WHERE = ("is-inside-work-tree", "show-toplevel", "absolute-git-dir", "git-common-dir", "show-object-format")
_SETTINGS = (
    *("autocrlf", "eol", "filemode", "symlinks", "ignorecase", "precomposeunicode", "trustctime", "checkstat"),
    *("excludesfile", "attributesfile", "sparsecheckout", "sparsecheckoutcone"),
)
_FILTER = re.compile(r"filter\.(.*)\.(?:clean|smudge|process)", re.DOTALL)
_KEPT = (
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_EXEC_PATH",
    "GIT_TEST_ASSUME_DIFFERENT_OWNER",
)
_LONG_HASH = re.compile(rb"^index [0-9a-f]{64}\.\.", re.MULTILINE)
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class GitError(RequestError):
    """Git is there, and has not answered what it was asked."""


class UntrustedError(GitError):
    """The repository belongs to somebody else, and git does not look into it; `place` is what it wants to be told."""

    def __init__(self, words: str, place: str) -> None:
        super().__init__(words)
        self.place = place


@dataclass(frozen=True)
class Settings:
    """What is taken over from git's settings: values by their keys, and the names of the filters that have programs."""

    values: Mapping[str, str]
    filters: frozenset[str]


@dataclass(frozen=True)
class Repository:
    """A repository with files, and where a folder lies in it; `commit` is None before the first one."""

    folder: Path
    top: Path
    prefix: str
    commit: str | None
    settings: Settings
    _own: Path
    _common: Path
    _format: str

    @contextmanager
    def view(self, files_in: Path | None = None) -> Iterator[View]:
        """Make a repository of our own for a block, on the same files; or on those in another folder, without index."""
        with _scratch(lambda own: self.lay_out(own, with_index=files_in is None)) as own:
            yield View(own, files_in or self.top, files_in or self.folder, self.settings)

    def lay_out(self, own: Path, *, with_index: bool) -> None:
        """Write a repository of our own: this one's objects, commit, lists of ignored files and attributes."""
        _write_repository(own, self.settings, self._format, self.commit)
        (own / "objects" / "info" / "alternates").write_bytes(os.fsencode(self._common / "objects") + b"\n")
        for folder, name in ((self._common, "exclude"), (self._common, "attributes"), (self._own, "sparse-checkout")):
            if files.is_file(folder / "info" / name):
                (own / "info" / name).symlink_to(folder / "info" / name)
        if with_index:
            for path in (self._own / "index", *self._own.glob("sharedindex.*")):
                _copy_index(path, own / path.name)


class View:
    """Git, as it sees some files from a repository of our own."""

    def __init__(self, own: Path, top: Path, folder: Path, settings: Settings) -> None:
        self._top, self._folder, self._filters = top, folder, settings.filters
        self._environment = _environment(
            GIT_DIR=str(own),
            GIT_WORK_TREE=str(top),
            HOME=str(own),
            XDG_CONFIG_HOME=str(own),
            GIT_CONFIG_GLOBAL=os.devnull,
            GIT_CONFIG_NOSYSTEM="1",
        )

    def run(self, *words: str, given: bytes = b"", seconds: float = SECONDS) -> subprocess.CompletedProcess[bytes]:
        """Run git in the folder, however it ends; GitError if it does not answer."""
        done = _run(words, self._folder, self._environment, given, seconds)
        if done is None:
            raise GitError("git is missing")
        return done

    def ask(self, *words: str, given: bytes = b"", seconds: float = SECONDS) -> bytes:
        """Return what git prints; GitError if it fails."""
        done = self.run(*words, given=given, seconds=seconds)
        if done.returncode:
            raise _refusal(done)
        return done.stdout

    def blocks(self, *words: str) -> Iterator[bytes]:
        """Yield what git prints, of any length; GitError if it fails."""
        with subprocess.Popen(
            ["git", *words],
            cwd=self._folder,
            env=self._environment,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdout is not None  # noqa: S101 - it was asked for
            limit = threading.Timer(SECONDS, process.kill)
            limit.start()
            try:
                while block := process.stdout.read(_BLOCK):
                    yield block
            except BaseException:
                process.kill()
                raise
            finally:
                limit.cancel()
        if process.returncode:
            raise GitError(_no_answer(SECONDS) if process.returncode < 0 else f"git {words[0]} failed")

    def check_out(self, commit: str) -> None:
        """Write a commit's files into the view's folder, which is empty, and its index."""
        words = ("-c", "core.sparseCheckout=false", "read-tree", "--reset", "-u", commit)
        self.ask(*words, seconds=CHECKOUT_SECONDS)

    def entries(self) -> list[tuple[bytes, bytes]]:
        """List the index: the mode and the path, from the top, of each file."""
        lines = self.ask("ls-files", "-z", "--stage", "--full-name", ":/").split(b"\0")[:-1]
        return [(line[:6], line.partition(b"\t")[2]) for line in lines]

    def filtered(self, names: list[bytes] | None = None) -> list[str]:
        """List which of some files, from the top, have a filter with a program; without names, which of the index."""
        if not self._filters or names == []:
            return []
        given = b"\0".join([*(names or [path for mode, path in self.entries() if mode.startswith(REGULAR)]), b""])
        where = ("-C", str(self._top.resolve()))
        said = self.ask(*where, "check-attr", "-z", "--stdin", *["--cached"] * (names is None), "filter", given=given)
        fields = os.fsdecode(said).split("\0")
        return [name for name, value in zip(fields[::3], fields[2::3], strict=False) if value in self._filters]


def find(folder: Path) -> Repository | None:
    """Find the repository that a folder is in; None without one or without git.

    GitError if git does not trust it, cannot read it, or if it has no files, as a bare one.
    """
    done = _run(["rev-parse", *(f"--{word}" for word in _WHERE), "--show-prefix", "HEAD"], folder, _environment())
    if done is None or b"not a git repository" in done.stderr:
        return None
    if b"dubious ownership" in done.stderr or b"unsafe repository" in done.stderr:
        place = one_line(os.fsdecode(done.stderr.rpartition(b"safe.directory ")[2].strip()))
        raise UntrustedError(str(_refusal(done)), place)
    lines = os.fsdecode(done.stdout).split("\n")
    known = len(lines) > len(_WHERE)
    if lines[0] == "false" or (known and not os.path.lexists(f"{lines[1]}/.git")):
        raise GitError(f"{one_line(folder)} is a bare repository or a folder of git's own: clone it, and go there")
    if not known:
        raise _refusal(done)
    _, top, own, common, form, prefix, commit, *_ = lines
    settings = _settings(folder, _environment())
    places = (Path(own), (folder / common).resolve())
    return Repository(folder, Path(top), prefix, commit if is_commit(commit) else None, settings, *places, form)


def folder_in(top: Path, prefix: str) -> Path:
    """Return the folder of a checkout that a project is; GitError if it is not there, or behind a link."""
    folder = top
    for part in Path(prefix).parts:
        folder /= part
        if folder.is_symlink() or not folder.is_dir():
            raise GitError(f"has no folder {one_line(prefix)}, or one behind a link")
    return folder


def is_commit(word: str) -> bool:
    """Return whether a word is a full hash of a commit, and so no option of git."""
    return _COMMIT.fullmatch(word) is not None


def unfiltered(paths: list[str]) -> str:
    """Say of checked-out files that they are not as git alone would have written them."""
    return one_line(f"as committed, since no filter is run: {listed(paths, most=3)}", 300)


def commit_of(folder: Path, word: str) -> str | None:
    """Return the full hash of the commit that a word names in a folder's repository; None if it names none."""
    # A word that begins with a dash would be an option of older versions of git.
    if word.startswith("-") or not word.isprintable():
        return None
    return _name(folder, "--verify", "--quiet", f"{word}^{{commit}}")


def short_name(folder: Path, commit: str) -> str:
    """Return a commit's hash as short as the repository allows."""
    return _name(folder, "--short", commit) or commit[:12]


def apply(folder: Path, diff: bytes, words: Iterable[str] = (), settings: Settings | None = None) -> str | None:
    """Apply a diff to the files of a folder, whatever repository is there or around; say why, if that fails."""
    try:
        known = settings or _settings(folder, _environment(GIT_DIR=os.devnull))
        form = "sha256" if _LONG_HASH.search(diff) else "sha1"
        with _scratch(lambda own: _write_repository(own, known, form, None)) as own:
            done = View(own, folder, folder, known).run("apply", *words, "-", given=diff, seconds=CHECKOUT_SECONDS)
    except GitError as error:
        return str(error)
    return one_line(done.stderr.decode("utf-8", "replace"), 200) if done.returncode else None


@contextmanager
def _scratch(fill: Callable[[Path], None]) -> Iterator[Path]:
    """Make a folder for a block, and fill it; GitError where there is no room for it."""
    with ExitStack() as stack:
        try:
            own = stack.enter_context(temporary_folder("git"))
            fill(own)
        except OSError as error:
            raise GitError(
                one_line(f"git cannot be asked: {error.filename or tempfile.gettempdir()}: {reason_of(error)}")
            ) from None
        yield own


def _write_repository(own: Path, settings: Settings, form: str, commit: str | None) -> None:
    for name in ("refs", "objects/info", "info"):
        (own / name).mkdir(parents=True)
    (own / "HEAD").write_text(f"{commit or 'ref: refs/heads/none'}\n", "ascii")
    version = 0 if form == "sha1" else 1
    lines = ["[gc]", "auto = 0", "[core]", f"repositoryformatversion = {version}", "bare = false"]
    escapes = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    for key, value in settings.values.items():
        lines.append(f'{key.partition(".")[2]} = "{value.translate(escapes)}"')
    lines += ["[extensions]", f"objectformat = {form}"] if version else []
    (own / "config").write_text("\n".join(lines) + "\n", "utf-8", "surrogateescape")


def _copy_index(path: Path, target: Path) -> None:
    """Copy an index with its time, by which git knows the files that may have changed in the moment it was written."""
    with suppress(FileNotFoundError), files.open_file(path) as source, target.open("wb") as copy:
        status = os.fstat(source.fileno())
        if status.st_size > LARGEST_INDEX:
            raise OSError(errno.EFBIG, f"it has more than {LARGEST_INDEX:,} bytes", str(path))
        shutil.copyfileobj(source, copy)
        copy.flush()
        os.utime(copy.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))


def _settings(folder: Path, environment: dict[str, str]) -> Settings:
    wanted = rf"^(core\.({'|'.join(_SETTINGS)})|filter\..*\.(clean|smudge|process))$"
    done = _run(["config", "-z", "--get-regexp", wanted], folder, environment)
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 - as git does
    values = {"core.excludesfile": f"{home}/git/ignore", "core.attributesfile": f"{home}/git/attributes"}
    filters = set()
    for field in (os.fsdecode(done.stdout) if done else "").split("\0")[:-1]:
        key, line, value = field.partition("\n")
        if found := _FILTER.fullmatch(key):
            filters.add(found[1])
        elif key in values:
            values[key] = os.path.join(folder, os.path.expanduser(value))  # noqa: PTH111, PTH118 - as git does
        else:
            values[key] = value if line else "true"
    values = {key: value for key, value in values.items() if not key.endswith("file") or os.path.isfile(value)}  # noqa: PTH113
    return Settings(values, frozenset(filters))


def _name(folder: Path, *words: str) -> str | None:
    done = _run(["-c", "core.fsmonitor=false", "rev-parse", *words], folder, _environment())
    found = done.stdout.decode("ascii", "replace").strip() if done and not done.returncode else ""
    return found or None


def _run(
    words: Iterable[str], folder: Path, environment: dict[str, str], given: bytes = b"", seconds: float = SECONDS
) -> subprocess.CompletedProcess[bytes] | None:
    """Run git in a session of its own, which gets no Ctrl-C; None without git, GitError if it takes too long."""
    try:
        return subprocess.run(
            ["git", *words],
            cwd=folder,
            env=environment,
            input=given,
            capture_output=True,
            timeout=seconds,
            start_new_session=True,
            check=False,
        )
    except OSError:
        return None
    except subprocess.TimeoutExpired:
        raise GitError(_no_answer(seconds)) from None


def _no_answer(seconds: float) -> str:
    return f"git did not answer within {seconds:g} s"


def _refusal(done: subprocess.CompletedProcess[bytes]) -> GitError:
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"]
    return GitError(one_line(f"git refuses: {lines[0].removeprefix('fatal: ')}", 300))


def _environment(**more: str) -> dict[str, str]:
    """Return the environment of git: in English, nothing is fetched or replaced, and no other repository is named."""
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in _KEPT or (name.startswith("GIT_CONFIG") and "HOME" not in more)
    }
    fixed = {"LC_ALL": "C", "GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1"}
    return {**own, **fixed, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", **more}
