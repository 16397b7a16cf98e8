"""Repeat a run from its record: check out its code, start it on a target, and compare the results."""

import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import get_type_hints

from msgspec import structs

from runner import targets
from runner.core.errors import KitError, RequestError, RunError
from runner.core.layout import Layout
from runner.core.temporary import temporary_folder
from runner.core.text import listed, one_line
from runner.definitions.plan import Plan
from runner.definitions.rerun import run_of
from runner.execution.observer import Observer
from runner.execution.recover import words_of
from runner.execution.run import carry_out, prepare
from runner.execution.signals import Interrupts
from runner.execution.worktrees import DATA, bring
from runner.records.folder import keep_out_of_git
from runner.records.schema import Launch, Record
from runner.tools.proof.checkouts import Kit, Sources, kept_changes
from runner.tools.proof.comparison import compare
from runner.tools.proof.integrity import Verdict, check_whole_and_parsed, repeat_with, verify
from trainkit.files import is_folder

_OF_COMMIT = ("commit", "dirty", "diff_sha256", "prefix", "submodules", "git")
"""A record's facts about its commit."""
_IMAGE = re.compile("sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Wish:
    """The choices of the command line.

    Args:
        target: where to run, or None to run on the record's target.
        words: `name=value` options of the target. If empty, the options of the record are used where allowed.
        results: the folder for the new records.
        here: the user's project, with the prepared data.
        with_files: further files of that project that the programs use.
    """

    target: str | None
    words: list[str]
    results: Path
    here: Path
    with_files: tuple[str, ...] = ()


def require_whole(path: Path, *, anyway: bool) -> Record:
    """Return the record of a run that is to be repeated. Raises RunError if the run's hashes do not match.

    If `anyway`, hashes may differ, but the record still has to be readable.
    """
    record, faults = check_whole_and_parsed(path)
    if record is None:
        raise RunError(f"{one_line(path)}: no level: {faults[0]}; nothing is run from it")
    try:
        Layout.parse(record.launch.layout)
    except ValueError as error:
        raise RunError(f"{one_line(path)}: no level: {one_line(error)}") from None
    if faults and not anyway:
        raise RunError(f"{one_line(path)}: {faults[0]}; nothing is run from it; --anyway runs it nevertheless")
    return record


def reproduce(
    path: Path, record: Record, sources: Sources | Kit, wish: Wish, observer: Observer, interrupts: Interrupts
) -> Verdict:
    """Run a record again, with the code of a repository or an archive, and return its proof level.

    Raises RequestError if the target cannot run the record, and RunError if the record is incomplete.
    """
    name, is_trusted = wish.target or record.launch.target, isinstance(sources, Sources)
    if name == "node":
        msg = f"{one_line(path)}: it ran on target {name}: choose where to run it now, for example --on local"
        raise RequestError(msg)
    if wish.with_files and name != "local":
        raise RequestError(f"--with-files {one_line(wish.with_files[0])}: is for --on local, not for {name}")
    words = wish.words or options_again(path, record.launch, name, is_trusted=is_trusted)
    if not record.launch.code.get("commit"):
        raise RunError(f"{one_line(path)}: the record names no commit to run again")
    diff = kept_changes(path, record.launch.code)
    with _tree(record, sources, diff, wish) as (root, notes):
        launch = structs.replace(record.launch, args={**record.launch.args, **repeat_with(record)})
        run = replace(run_of(launch, root), repeat=1, repeats=1)
        target = targets.load(name, words)
        (job,) = prepare(Plan((run,), (run.cell,), ()), target, wish.results, observer, interrupts)
        # The checkout is not a repository; its commit is in the record.
        code = {key: value for key, value in job.surroundings["code"].items() if key not in _OF_COMMIT}
        code |= {key: value for key, value in record.launch.code.items() if key in _OF_COMMIT}
        job.surroundings["code"] = code
        job = replace(job, diff=(diff or b"").decode("utf-8", "surrogateescape"))
        keep_out_of_git(wish.results)
        (new,) = carry_out([job], wish.results, observer, interrupts)
    after = wish.results / new.launch.experiment / new.launch.id
    check, verdict = compare(path, record, after, new), verify(path, 1)
    verdict.checks.insert(0, check)
    verdict.notes += [f"run again as {one_line(after)}", *notes]
    if verdict.level is not None and check.same:
        verdict.level, verdict.stopped = 2, []
    elif verdict.level is not None:
        verdict.stopped.append(str(check))
    return verdict


def not_run(path: Path, error: KitError) -> Verdict:
    """Return the proof level of a run in an archive, with the error that prevented its repetition."""
    verdict = verify(path, 1)
    verdict.stopped.append(str(error).removeprefix(f"{one_line(path)}: "))
    return verdict


@contextmanager
def _tree(record: Record, sources: Sources | Kit, diff: bytes | None, wish: Wish) -> Iterator[tuple[Path, list[str]]]:
    """Yield a temporary folder, and a note on each missing submodule.

    The folder holds the commit, the uncommitted changes and the prepared data.
    """
    with temporary_folder("reproduce") as scratch:
        root, notes = sources.check_out(record.launch.code, scratch, diff)
        place = root / DATA
        data = wish.here / DATA
        if data.is_dir():  # replaces the commit's folder or link, but no file
            if is_folder(place):
                shutil.rmtree(place)
            elif place.is_symlink():
                place.unlink()
            if not place.exists():
                place.symlink_to(data.resolve())
        bring(wish.here, root, wish.with_files)
        try:
            yield root, notes
        except (RequestError, RunError) as error:  # the folder will be gone when the message is read
            raise type(error)(str(error).replace(f"{one_line(root)}/", "")) from None


def options_again(path: Path, launch: Launch, target: str, *, is_trusted: bool) -> list[str]:
    """Return the options of a record's target as `name=value` words, or [] if `target` is another one.

    Raises RequestError if an untrusted record names hosts, files or images. The id of an image in this machine's engine
    is accepted, since an id cannot be forged.
    """
    if launch.target != target:
        return []
    # Free-text options other than axes may name hosts, files and images.
    kind = targets.find(target).Options
    types = get_type_hints(kind)
    texts = [option for option in fields(kind) if types[option.name] is str]
    names = {option.name: option.default for option in texts if "axis" not in option.metadata}
    words = words_of(launch)
    image = str((launch.image or {}).get("id") or "")
    if _IMAGE.fullmatch(image) and "image" in names and "image" not in launch.options:
        words.append(f"image={image}")
    named = [name for name, value in launch.options.items() if name in names and value not in ("", names[name])]
    if named and not is_trusted:
        given = " ".join(f"--with {shlex.quote(word)}" for word in words)
        msg = f"{one_line(path)}: it comes from somebody else, so the value of its {listed(named)} is not used"
        raise RequestError(one_line(f"{msg}: confirm or change it: --on {target} {given}", 900))
    return words
