"""A record -> the same run again: its code put together anew, started on a target, and compared with what it was."""

import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import get_type_hints

from runner import targets
from runner.core import git
from runner.core.errors import KitError, RequestError, RunError
from runner.core.layout import Layout
from runner.core.temporary import temporary_folder
from runner.core.text import listed, one_line
from runner.definitions.plan import Plan
from runner.definitions.rerun import run_of
from runner.execution import started
from runner.execution.observer import Observer
from runner.execution.recover import words_of
from runner.execution.run import carry_out, prepare
from runner.execution.signals import Interrupts
from runner.execution.worktrees import DATA, bring, lacking
from runner.records.schema import Launch, Record
from runner.tools.proof.comparison import as_it_came_out, chosen_by_the_clock, compare
from runner.tools.proof.inputs import Inputs, compare_data
from runner.tools.proof.integrity import check_whole
from runner.tools.proof.kit import Kit
from runner.tools.proof.level import LEVELS, Check, Verdict
from runner.tools.proof.sources import Tree, kept_changes
from runner.tools.proof.verify import verify
from trainkit.files import is_folder

_OF_COMMIT = ("commit", "dirty", "diff_sha256", "prefix", "submodules", "git")
"""What a record says of its commit; the programs and the lock file are hashed where they run."""
_IMAGE = re.compile("sha256:[0-9a-f]{64}")
BY_HAND = ("node", "replay")
"""Targets that cannot be started again from a record."""


@dataclass(frozen=True)
class Wish:
    """What the command line chooses.

    Args:
        target: where it is run; None is where it was.
        words: options of the target, as `name=value`; without any, those of the record that may be used.
        results: the folder of the new records.
        here: the project of whoever runs it, whose folder of prepared data the programs find as their own.
        anyway: whether something is run though its hashes do not hold.
        with_files: what else they find of it.
    """

    target: str | None
    words: list[str]
    results: Path
    here: Path
    anyway: bool
    with_files: tuple[str, ...] = ()


def require_whole(path: Path, *, anyway: bool) -> Record:
    """Return the record of a run that may be run again; RunError if its hashes do not hold."""
    record, faults, _ = check_whole(path)
    if record is None or (faults and not anyway):
        way_out = "" if record is None else "; --anyway runs it all the same"
        raise RunError(f"{one_line(path)}: no level: {faults[0]}; nothing is run from it{way_out}")
    try:
        Layout.parse(record.launch.layout)
    except ValueError as error:
        raise RunError(f"{one_line(path)}: no level: {one_line(error)}") from None
    return record


def reproduce(
    path: Path,
    record: Record,
    sources: Tree,
    wish: Wish,
    observer: Observer,
    interrupts: Interrupts,
) -> Verdict:
    """Run a record again, with the code of a repository or of an archive, and say which level it reaches.

    Raises RequestError if it cannot be run there; RunError, with the level and what is missing, if the record does not
    hold what it takes.
    """
    name = wish.target or record.launch.target
    if name in BY_HAND:
        msg = f"{one_line(path)}: it ran on target {name}: say where it is run now, for example --on local"
        raise RequestError(msg)
    words = wish.words or options_again(path, record.launch, name)
    diff = _diff(path, record, anyway=wish.anyway)
    checks = Inputs(sources).check_without_data(record, path)
    altered = next((check for check in checks if check.name == "definition" and check.same is False), None)
    if altered and not wish.anyway:
        raise RunError(f"{one_line(path)}: level 0: {altered}; nothing is run from it; --anyway runs it all the same")
    if wish.with_files and name != "local":
        raise RequestError(f"--with-files {one_line(wish.with_files[0])}: is for --on local, not for {name}")
    with _tree(path, record, sources, diff, wish) as (root, note):
        if name == "local" and not isinstance(sources, Kit) and (left := lacking(wish.here, root)):
            observer.note(left)
        run = replace(run_of(as_it_came_out(record), root), repeat=1, repeats=1)
        target = targets.load(name, words)
        jobs = prepare(Plan((run,), (run.cell,), ()), target, words, wish.results, observer, interrupts)
        made = {key: value for key, value in record.launch.code.items() if key in _OF_COMMIT}
        for job in jobs:  # the checkout is no repository: what it was made from is known
            own = {key: value for key, value in job.surroundings["code"].items() if key not in _OF_COMMIT}
            job.surroundings["code"] = own | made
        jobs = [replace(job, diff=(diff or b"").decode("utf-8", "surrogateescape")) for job in jobs]
        (new,) = carry_out(jobs, wish.results, observer, interrupts)
    after = wish.results / new.launch.experiment / new.launch.id
    verdict = _verdict(path, record, after, new, [*checks, *compare_data(record, new)])
    verdict.notes += [note] if note else []
    return verdict


def not_run(path: Path, kit: Kit, error: KitError) -> Verdict:
    """Say of a run of an archive which level it reaches by itself, and why it was not run again."""
    why = str(error).removeprefix(f"{one_line(path)}: ").removeprefix("level 0: ")
    (verdict,) = verify([path], Inputs(kit))
    verdict.stopped.append(why)
    return verdict


def _verdict(path: Path, old: Record, after: Path, new: Record, inputs: list[Check]) -> Verdict:
    """Put the levels together: each one rests on those before it; the last one that holds all the same is a note."""
    check = compare(path, old, after, new)
    verdict = Verdict(one_line(path), level=1, checks=[check])
    if others := [str(check) for check in inputs if check.same is False]:
        verdict.level, verdict.stopped = 0, others
    if faults := check_whole(path)[1]:
        verdict.level, verdict.stopped = None, faults
    verdict.notes += [str(check) for check in inputs if check.same is None]
    verdict.notes.append(f"run again as {one_line(after)}")
    if chosen := chosen_by_the_clock(old):
        verdict.notes.append(f"the run followed the clock; run again with what it chose: {chosen}")
    if not verdict.stopped and check.same:
        verdict.level = 2
    elif not verdict.stopped:
        verdict.stopped = [str(check)]
    elif check.same:
        verdict.notes.append(f"level 2 holds by itself: {LEVELS[2]}")
    return verdict


@contextmanager
def _tree(path: Path, record: Record, sources: Tree, diff: bytes | None, wish: Wish) -> Iterator[tuple[Path, str]]:
    """Put the commit, the kept changes and the prepared data together in a temporary folder; a note comes with it."""
    launch = record.launch
    commit = str(launch.code.get("commit") or "")
    if not git.is_commit(commit):
        raise RunError(f"{one_line(path)}: level 0: the record names no commit to run again")
    with temporary_folder("reproduce") as scratch:
        root, why = sources.check_out(launch.code, scratch, diff)
        if root is None:
            raise RunError(f"{one_line(path)}: level 0: commit {commit[:12]} {why}")
        place = root / DATA
        data = wish.here / DATA
        if data.is_dir():  # in place of the commit's folder or link; a file of that name stays
            if is_folder(place):
                shutil.rmtree(place)
            elif place.is_symlink():
                place.unlink()
            if not place.exists():
                place.symlink_to(data.resolve())
        bring(wish.here, root, wish.with_files)
        try:
            yield root, why
        except (RequestError, RunError) as error:  # the folder is gone when somebody reads it
            raise type(error)(str(error).replace(f"{one_line(root)}/", "")) from None


def _diff(path: Path, record: Record, *, anyway: bool) -> bytes | None:
    """Read the kept changes, if there were any; RunError if they are lost, or others and not asked for `anyway`."""
    wanted = record.launch.code.get("diff_sha256")
    if not wanted:
        return None
    diff, why = kept_changes(path, wanted)
    if diff is None:
        raise RunError(f"{one_line(path)}: level 0: {why}")
    if why and not anyway:
        raise RunError(f"{one_line(path)}: level 0: {why}; nothing is run from it")
    return diff


def options_again(path: Path, launch: Launch, target: str) -> list[str]:
    """Write the options of the record's own target again; of another one they mean nothing.

    Raises RequestError for names, for example of hosts, that nothing shows to be this user's own choice. An image of
    this machine's engine is known by its id, which no one can give to another one.
    """
    if launch.target != target:
        return []
    # The options that are any text and no axis, with their defaults: they may name hosts, files and images.
    kind = targets.find(target).Options
    types = get_type_hints(kind)
    texts = [option for option in fields(kind) if types[option.name] is str]
    names = {option.name: option.default for option in texts if "axis" not in option.metadata}
    try:
        words = words_of(launch)
    except RequestError as error:
        raise RequestError(f"{one_line(path)}: {error}") from None
    image = str((launch.image or {}).get("id") or "")
    if _IMAGE.fullmatch(image) and "image" in names and "image" not in launch.options:
        words.append(f"image={image}")
    named = [name for name, value in launch.options.items() if name in names and value not in ("", names[name])]
    if named and not started.is_own(path):
        told = " ".join(f"--with {shlex.quote(word)}" for word in words)
        msg = f"{one_line(path)}: nothing here shows that you have started it, so its {listed(named)} is not used"
        raise RequestError(one_line(f"{msg}: name it, or another one: --on {target} {told}", 900))
    return words
