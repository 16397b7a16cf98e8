"""Level 1: what a run was made from is there, and the same: programs, definition, lock file, image, data, model."""

import json
import platform
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from runner.core.errors import KitError, RequestError
from runner.core.text import listed, one_line
from runner.definitions import program as programs
from runner.definitions.data import environment
from runner.definitions.definition import hash_resolved
from runner.definitions.program import INPUTS
from runner.definitions.settings import PACKAGE
from runner.records.schema import Launch, Record
from runner.tools.proof.level import Check
from runner.tools.proof.sources import DIFF, REFUSED, Tree, hash_at, kept_changes
from trainkit import files

_HASH, _OF_TRAINING = "_sha256", ("parameters_sha256", "split_sha256")
_NO_DATA = Check("data", None, "the run says of none that it has read it")
_HASH_SECONDS = 600
_LARGEST_ANSWER = 10_000_000
_Found = TypeVar("_Found")
_ARCHITECTURES = ("x86_64", "aarch64", "arm64", "ppc64le", "s390x", "riscv64")


class Inputs:
    """Checks the inputs of many runs of one project or archive; what several runs share is looked at once."""

    def __init__(self, sources: Tree) -> None:
        self._sources = sources
        self._known: dict[str, Any] = {}

    def check(self, record: Record, folder: Path) -> list[Check]:
        """Look at every input of a run, in the order in which they are needed."""
        data = [] if record.launch.target == "replay" else self._data(record)
        return [*self.check_without_data(record, folder), *data]

    def check_without_data(self, record: Record, folder: Path) -> list[Check]:
        """Look at what can be looked at here, wherever the data are: a run that is made again says what it read."""
        launch = record.launch
        if launch.target == "replay":
            return [Check("programs", None, "a recording was replayed: nothing was run")]
        found = hash_resolved(launch.definition)
        definition = Check("definition", True, f"the record holds it whole, {found[:12]}")
        if found != launch.definition_sha256:
            definition = Check("definition", False, "the one in the record is not the one that its hash names")
        changes, diff = self._changes(launch, folder)
        checks = [definition, changes, self._programs(launch, diff)]
        if launch.masked:
            checks.append(Check("secrets", None, f"masked in {one_line(listed(launch.masked), 200)}"))
        return [*checks, self._lock(launch), self._architecture(launch), self._image(record)]

    def _changes(self, launch: Launch, folder: Path) -> tuple[Check, bytes | None]:
        """Look at the uncommitted changes that the run was made with, and return them if they are the same."""
        code, name = launch.code, "changes"
        if unknown := _unknown(code):
            return Check(name, False, unknown), None
        kept, inside = code.get("diff_sha256"), code.get("submodules")
        lost = f"; those in submodules are not kept: {one_line(inside, 200)}" if inside else ""
        if not kept:
            words = "none to tracked files" if code.get("dirty") else "none"
            return Check(name, not lost, words + lost), None
        diff, why = kept_changes(folder, kept)
        if why:
            return Check(name, False, why), None
        return Check(name, not lost, f"{DIFF} holds them whole, {kept[:12]}{lost}"), diff

    def _programs(self, launch: Launch, diff: bytes | None) -> Check:
        wanted, name = launch.code.get("sources_sha256"), "programs"
        if not self._sources.has(launch.program):
            return Check(name, False, "there is no project here: go to a clone of it")
        commit = str(launch.code.get("commit"))
        changes = f"{launch.code.get('diff_sha256')} {diff is None} {launch.code.get('prefix')}"
        key = f"programs {launch.program} {wanted} {commit} {changes}"
        return self._once(key, lambda: self._found(launch, diff, str(wanted), commit))

    def _found(self, launch: Launch, diff: bytes | None, wanted: str, commit: str) -> Check:
        short, name = commit[:12], "programs"
        here = self._sources.here(launch.program) == wanted
        if here and diff is None:
            return Check(name, True, f"those of this checkout, {wanted[:12]}")
        if diff is None and launch.code.get("diff_sha256"):
            return Check(name, False, f"not those of this checkout, and the changes to commit {short} are lost")
        at, why = hash_at(self._sources, launch.code, launch.program, diff)
        lacking = self._sources.lacks(launch.code)
        lacks = f"; the commit does not hold {listed(lacking)}" if lacking else ""
        if at == wanted:
            return Check(name, True, f"those of commit {short}{'' if diff is None else ' and the kept changes'}{lacks}")
        if here and not why.startswith(REFUSED):
            return Check(name, True, f"those of this checkout, {wanted[:12]}")
        if at is None:
            also = "those of this checkout, but" if here else "not those of this checkout, and"
            why = f"commit {short} {why}{lacks}" if launch.code.get("commit") else "the record names no commit"
            return Check(name, False, f"{also} {why}")
        untracked = ": files that git did not track" if launch.code.get("dirty") and not lacks else ""
        return Check(name, False, f"neither those of this checkout nor of commit {short}{lacks or untracked}")

    def _lock(self, launch: Launch) -> Check:
        wanted, name = launch.code.get("lock_sha256"), "lock file"
        if not wanted:
            return Check(name, None, "the project had none")
        if not self._sources.has(launch.program):
            return Check(name, False, "there is no project here")
        key, short = f"lock {launch.code.get('commit')} {launch.code.get('diff_sha256')}", str(wanted)[:12]
        if wanted in self._once(key, lambda: self._sources.locks(launch.code)):
            return Check(name, True, short)
        return Check(name, False, f"it is another one than {short}, here and at the commit")

    def _architecture(self, launch: Launch) -> Check:
        system, here = str(launch.host.get("os", "")), platform.machine()
        there = next((name for name in _ARCHITECTURES if f"-{name}" in system), None)
        if there is None:
            return Check("architecture", None, "the record does not say it")
        differs = f"the run was on {there}, this is {here}"
        return Check("architecture", there == here, there if there == here else differs)

    def _image(self, record: Record) -> Check:
        image = record.launch.image
        if image is None:
            return Check("image", True, "none was used")
        identity = str(image.get("id") or image.get("digest") or image.get("name"))
        return self._once(f"image {identity}", lambda: _find_image(image, identity))

    def _data(self, record: Record) -> list[Check]:
        """Hash the data and the model again, with the program of the family that knows them."""
        wanted = _hashes_of_data(record)
        if not wanted:
            return [_NO_DATA]
        launch = record.launch
        family = launch.program.partition(".")[0]
        module, root = f"{PACKAGE}/{family}/{INPUTS}.py", self._sources.root
        if root is None:
            return [Check("data", None, "verify runs nothing of an archive")]
        if not self._sources.has(launch.program):
            return [Check("data", None, "there is no project here")]
        if not files.is_file(root / module):
            return [Check("data", None, f"there is no {module} to hash it with")]
        words = _words(launch, root)
        answer = self._once(f"data {family} {words}", lambda: _ask(root, family, words))
        if isinstance(answer, Check):
            return [answer]
        unsaid = f"{INPUTS}.py does not say it"
        return [_compare(name, wanted[name], answer.get(name), unsaid) for name in sorted(wanted)]

    def _once(self, key: str, look: Callable[[], _Found]) -> _Found:
        if key not in self._known:
            self._known[key] = look()
        found: _Found = self._known[key]
        return found


def _unknown(code: dict[str, Any]) -> str | None:
    """Return why nobody can know from a record what its code was, if that is so."""
    why = one_line(code["git"], 300) if code.get("git") else None
    if not code.get("commit"):
        return f"the record names no commit: {why or 'the project was not in git, or had none yet'}"
    return f"the record does not say whether there were any: {why}" if why else None


def compare_data(old: Record, new: Record) -> list[Check]:
    """Compare the data and the model that two runs say they have read."""
    wanted = _hashes_of_data(old)
    unsaid = "the run that was made again does not say it"
    return [_compare(name, wanted[name], new.facts.get(name), unsaid) for name in sorted(wanted)] or [_NO_DATA]


def _hashes_of_data(record: Record) -> dict[str, str]:
    hashes = ((key, value) for key, value in record.facts.items() if key.endswith(_HASH) and key not in _OF_TRAINING)
    return {key: value for key, value in hashes if isinstance(value, str)}


def _compare(name: str, wanted: str, found: object, unsaid: str) -> Check:
    what = name.removesuffix(_HASH)
    if found is None:
        return Check(what, None, unsaid)
    was, now = (one_line(str(value)[:12]) for value in (wanted, found))
    return Check(what, found == wanted, was if found == wanted else f"it is another: SHA-256 {now}, in the run {was}")


def _words(launch: Launch, root: Path) -> tuple[str, ...]:
    """Write the program's args again; where the data lay in a container is nothing to this machine."""
    args = {key: value for key, value in launch.args.items() if key != "data_dir" or launch.target == "local"}
    try:
        return tuple(programs.find(root, launch.program).argv(args))
    except (KitError, OSError, ValueError):  # OSError: 5,000 letters are no name of a file
        return ()


def _ask(root: Path, family: str, words: tuple[str, ...]) -> dict[str, Any] | Check:
    command = [sys.executable, "-m", f"{PACKAGE}.{family}.{INPUTS}", *words]
    try:
        done = subprocess.run(
            command, cwd=root, env=environment(root), capture_output=True, timeout=_HASH_SECONDS, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:  # ValueError: a word with a NUL is no argument
        return Check("data", False, one_line(error, 200))
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"]
        return Check("data", False, one_line(lines[-1], 300))
    with suppress(ValueError, RecursionError):
        told: Any = json.loads(done.stdout[:_LARGEST_ANSWER])
        if isinstance(told, dict):
            return told
    return Check("data", False, f"{PACKAGE}/{family}/{INPUTS}.py printed no JSON object")


def _find_image(image: dict[str, Any], identity: str) -> Check:
    """Look for an image in the engine, by what no one can move."""
    from runner.targets.compose import engine  # a run without an image needs none

    name = one_line(image.get("name"), 200)
    try:
        client = engine.reach()
    except RequestError as error:
        return Check("image", None, one_line(error, 200))
    try:
        found = engine.find_image(client, identity) is not None
    finally:
        client.close()
    gone = f"{name} is gone from the engine: {one_line(identity, 80)}"
    return Check("image", found, f"{name}, {one_line(identity, 19)}" if found else gone)
