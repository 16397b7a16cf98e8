"""What git says of a project: its commit, whether anything differs from it, and the differences as one text.

The text is the same whatever a person's own settings of git are, and `git apply` takes it, binary files included. What
git did not answer is said: nothing is known then, and "nothing has changed" would be a guess.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
from typing import TYPE_CHECKING, Any

from runner.core.text import one_line

if TYPE_CHECKING:
    from pathlib import Path

LARGEST_DIFF = 1_000_000
_SECONDS = 10
_BLOCK = 1 << 16
_GIT = ("git", "-c", "core.quotepath=off", "-c", "core.fsmonitor=false", "-c", "diff.relative=false")
_STATUS = ("status", "--porcelain=v2", "-z", "--untracked-files=normal", "--no-renames")
_DIFF = (
    *("diff", "--binary", "--unified=3", "--src-prefix=a/", "--dst-prefix=b/"),
    *("--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short", "--ignore-submodules=dirty", "HEAD"),
)
_NOTHING = (b"not a git repository", b"unknown revision")
_SUBMODULE, _PATH = 2, 8
"""Columns of a changed file's line in porcelain version 2."""


class _NoAnswerError(Exception):
    """Git is there, and has not said what it was asked."""


def describe_repository(root: Path) -> tuple[dict[str, Any], bytes]:
    """Describe the repository that a project is in, and return the text of its uncommitted changes, as far as kept.

    `prefix` is the project's folder in it, `submodules` are those with changes of their own, which the text does not
    have, and `git` says why something is not known; each is left out if there is none. Nothing is said of a folder
    that is in no repository, or in one without a commit.
    """
    said: dict[str, Any] = {}
    diff = b""
    try:
        found = _ask(root, "rev-parse", "--show-prefix", "HEAD")
        if found is None:
            return said, diff
        prefix, _, commit = found.rstrip(b"\n").rpartition(b"\n")
        said |= {"commit": commit.decode(), "dirty": None, "diff_sha256": None}
        if prefix:
            said["prefix"] = prefix.decode("utf-8", "replace")
        lines = (_ask(root, *_STATUS) or b"").split(b"\0")[:-1]
        said["dirty"] = bool(lines)
        if changed := _changed_submodules(lines):
            said["submodules"] = changed
        if said["dirty"]:
            said["diff_sha256"], diff = _changes(root)
    except _NoAnswerError as error:
        said["git"] = str(error)
    return said, diff


def _changed_submodules(lines: list[bytes]) -> list[str]:
    """Name the submodules in which something is not committed."""
    rows = [line.split(b" ", _PATH) for line in lines if line.startswith(b"1 ")]
    changed = (row[_PATH] for row in rows if row[_SUBMODULE][:1] == b"S" and row[_SUBMODULE][2:] != b"..")
    return [one_line(path.decode("utf-8", "replace"), 200) for path in changed]


def _changes(root: Path) -> tuple[str | None, bytes]:
    """Hash the changes to tracked files and return their text, cut if it is long; no hash if there are none."""
    digest, kept, size = hashlib.sha256(), bytearray(), 0
    with subprocess.Popen(
        [*_GIT, *_DIFF],
        cwd=root,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None  # noqa: S101 - it was asked for
        limit = threading.Timer(_SECONDS, process.kill)
        limit.start()
        try:
            while block := process.stdout.read(_BLOCK):
                digest.update(block)
                size += len(block)
                kept += block[: LARGEST_DIFF - len(kept)]
        except BaseException:
            process.kill()
            raise
        finally:
            limit.cancel()
    if process.returncode:
        msg = _no_answer() if process.returncode < 0 else "git diff failed"
        raise _NoAnswerError(msg)
    return digest.hexdigest() if size else None, bytes(kept) + (b"\n... cut\n" if size > LARGEST_DIFF else b"")


def _ask(root: Path, *words: str) -> bytes | None:
    """Return what git prints; None where there is no git, no repository or no commit."""
    try:
        done = subprocess.run(
            [*_GIT, *words],
            cwd=root,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except OSError:
        return None
    except subprocess.TimeoutExpired:
        raise _NoAnswerError(_no_answer()) from None
    if done.returncode == 0:
        return done.stdout
    if any(words in done.stderr for words in _NOTHING):
        return None
    said = done.stderr.decode("utf-8", "replace").strip() or f"git {words[0]} ended with {done.returncode}"
    msg = one_line(f"git refuses: {said.splitlines()[0].removeprefix('fatal: ')}", 300)
    raise _NoAnswerError(msg)


def _no_answer() -> str:
    return f"git did not answer within {_SECONDS} s"


def _environment() -> dict[str, str]:
    """Return the environment of git: in English, without what changes the text of a diff."""
    own = {name: value for name, value in os.environ.items() if name != "GIT_DIFF_OPTS"}
    return {**own, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
