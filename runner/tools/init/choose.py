"""Which script of a repository trains: a score from what each one does and is called."""

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from runner.core.errors import RequestError
from runner.core.text import listed, one_line
from runner.definitions.program import as_path
from runner.tools.init import source
from runner.tools.init.modules import Modules
from runner.tools.init.source import Sign
from runner.tools.init.tree import Tree
from trainkit.files import read_file

LARGEST_TOTAL = 20_000_000
"""Bytes of Python that are looked at in one repository."""
_TRAINING = {Sign.BACKWARD, Sign.FIT, Sign.TRAINER}
_ACROSS = (Sign.GROUP, Sign.PARALLEL, Sign.ACCELERATOR, Sign.FABRIC, Sign.DEEPSPEED)
"""Signs of a training with several processes."""
_MARGIN = 2
"""A score has to be higher by this to be the best; scripts nearer than that are all named."""
_STARTS = re.compile(rb"__main__|^(?:for|while|with)\b|^[A-Za-z_](?:.*=[ \t]*)?[\w.]*\(", re.MULTILINE)
"""What a file has that may do something when it is started: a guard, or work or an assigned call at the left margin."""
_TRAINS = re.compile(r"(pre)?train(er|ing)?|fine[-_]?tun(e|ing)|pretrain(ing)?|sft")
_HAS_TRAIN = re.compile(r"train|fine[-_]?tun")
_MAIN = re.compile(r"main|__main__|run")
_NOT_TRAINING = re.compile(
    r"(^|[-_])(eval|evaluate|evaluation|test|infer|inference|predict|demo|plot|export|convert|preprocess|prepare|"
    r"download|benchmark|bench|profile|serve|visuali[sz]e|generate|sample|sweep|utils?|helpers?)([-_]|$)"
)
_ASIDE = re.compile(r"examples?|legacy|old|archive[ds]?|deprecated|experimental|attic|tutorials?|tools|notebooks")


@dataclass(frozen=True)
class Choice:
    """A script, by its path from the repository's folder, and why it is taken for the training."""

    modules: Modules
    score: float
    why: str


def choose(root: Path, tree: Tree, command: str) -> Choice:
    """Choose the script that trains; RequestError if there is none, or if several are as good."""
    left = LARGEST_TOTAL
    found: list[Choice] = []
    for script in tree.scripts:
        size = os.lstat(root / script).st_size
        if left < size:
            break
        left -= size
        found += [choice] if _may_start(root / script) and (choice := judge(root, script)) else []
    if not found:
        _refuse(tree, command)
    found.sort(key=lambda choice: -choice.score)
    best = [choice for choice in found if found[0].score - choice.score < _MARGIN]
    if len(best) > 1:
        names = listed(one_line(choice.modules.script, 100) for choice in best)
        first = one_line(shlex.quote(as_path(os.path.relpath(root / best[0].modules.script))))
        raise RequestError(f"{len(best)} scripts may be the training: {names}; name one: {command} {first}")
    return best[0]


def judge(root: Path, script: str, *, named: bool = False) -> Choice | None:
    """Score a script; None if it trains nothing or cannot be run, unless a person named it."""
    own = source.read(root / script)
    if own is None or not (named or own.guarded or own.works):
        return None
    modules = Modules(root, script)
    signs = modules.signs
    trains = bool(signs & _TRAINING and modules.frameworks)
    if not trains and not named:
        return None
    score = 10.0 if own.signs & _TRAINING else 8.0
    score += 2 * bool(signs & {Sign.STEP, Sign.TRAINER, Sign.FIT}) + own.guarded + (Sign.ARGUMENTS in own.signs)
    score += 2 * bool(signs & {*_ACROSS, Sign.TRAINER})
    return Choice(modules, score + _by_name(script), _why(modules, named=named))


def _by_name(script: str) -> float:
    *folders, file = script.lower().split("/")
    stem = file.removesuffix(".py")
    score = 4 if _TRAINS.fullmatch(stem) else 3 if _HAS_TRAIN.search(stem) else 2 if _MAIN.fullmatch(stem) else 0
    aside = sum(bool(_ASIDE.fullmatch(folder)) for folder in folders)
    depth = sum(folder != "src" for folder in folders)
    return score - 6 * bool(_NOT_TRAINING.search(stem)) - 3 * aside - depth


def _may_start(path: Path) -> bool:
    """Return whether a file may do something when it is started: to search its text is much faster than to parse it."""
    try:
        text = read_file(path, source.LARGEST)
    except (OSError, ValueError):
        return False
    return _STARTS.search(text) is not None


def _why(modules: Modules, *, named: bool) -> str:
    does = [sign for sign in (Sign.BACKWARD, Sign.STEP, Sign.FIT, Sign.TRAINER) if sign in modules.signs]
    across = [sign for sign in _ACROSS if sign in modules.signs]
    words = [f"imports {', '.join(modules.frameworks)}"] if modules.frameworks else []
    words += [f"has {', '.join([*does, *across])}"] if does or across else []
    return "; ".join([*(["as named"] if named else []), *words])


def _refuse(tree: Tree, command: str) -> NoReturn:
    if tree.notebooks and not tree.scripts:
        msg = f"no training script here, only notebooks ({listed(tree.notebooks, most=3)}), and torchrun starts scripts"
        save = "save one as a script with `jupyter nbconvert --to script`"
        raise RequestError(one_line(f"{msg}: {save}, then {command} path/to/train.py"))
    looked = f"none of {len(tree.scripts):,} Python files trains and can be run" if tree.scripts else "no Python files"
    raise RequestError(f"no training script here ({looked}); name one: {command} path/to/train.py")
