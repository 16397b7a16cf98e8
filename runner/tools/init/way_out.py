"""Explain in one line why a first run failed, and what to do."""

import re
import shlex
import sys
from itertools import pairwise
from pathlib import Path

from runner.core.text import one_line, shown
from runner.definitions.program import as_path
from runner.records.cause import hints
from runner.tools.init.modules import USUAL_PLACES
from runner.tools.init.proposal import INIT
from runner.tools.init.trial import Trial

_NO_MODULE = re.compile(r"(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)'?")
_REFUSED = re.compile(r"(?:.{1,300}: )?[Ee]rror: (.{1,1000})")
_USAGE = 2
"""Exit code of argparse, click and others for wrong arguments."""
_RANK = re.compile(r"^\[rank\d{1,6}\]:")
_PLACE = re.compile(r'(?:\[rank\d{1,6}\]:)?\s*File "(.{1,300})", line (\d{1,9})')


def describe(trial: Trial, root: Path, script: str, command: str) -> tuple[str, bool]:
    """Return why the script failed, and whether to keep its output. `command` is the command that the user typed."""
    failure = trial.record.failure
    lines = failure.last_lines if failure else []
    why = (failure and failure.cause) or (lines[-1] if lines else "")
    if module := _NO_MODULE.search(why):
        return _no_module(module[1], root, script), False
    given = f"{INIT} {shlex.quote(as_path(script))}" if command == INIT else command
    if failure and failure.exit_code == _USAGE and (refused := _REFUSED.match(why)):
        return one_line(f"{script}: {refused[1]}; give its arguments last: {given} -- ARGS", 1000), False
    place = _last_own_line(lines, root)
    whole = " ".join(lines[lines.index(why) :]) if why in lines else why
    what = one_line(whole or trial.record.reason or "no output", 300) + f" ({place})" * bool(place)
    where = f"its output is in {one_line(trial.folder / 'raw')}"
    way_out = f"fix that, or give it arguments: {given} -- ARGS"
    if hint := hints().get(failure.hint) if failure and failure.hint else None:
        way_out = f"hint {hint.name}: {hint.means} {hint.do}".rstrip(".")
    if command == INIT:
        way_out += "; --no-try skips this run"
    return f"{one_line(script)} failed in its first run: {what}; {where}; {way_out}", True


def _last_own_line(lines: list[str], root: Path) -> str:
    for frame, code in reversed([*pairwise(lines)]):
        match = _PLACE.match(frame)
        path = root / match[1] if match else root
        if match and path.is_relative_to(root) and "site-packages" not in path.parts and path.is_file():
            return one_line(f"{path.relative_to(root)}:{match[2]}: {_RANK.sub('', code).strip()}", 200)
    return ""


def _no_module(module: str, root: Path, script: str) -> str:
    first = module.partition(".")[0]
    why = f"{one_line(script)} imports {shown(module)}, which was not found"
    for place in USUAL_PLACES:
        path = root / place / first
        if path.is_dir() or path.with_name(f"{first}.py").is_file():
            return f'{why}, although {one_line(path)} exists: add path = ["{place or "."}"] to [tool.runner]'
    return f"{why}: install it in {one_line(sys.executable)}"
