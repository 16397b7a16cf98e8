"""Why a first run failed, in one line with the way out."""

import os
import re
import shlex
import sys
from itertools import pairwise
from pathlib import Path

from runner.core.text import one_line, shown
from runner.definitions.program import as_path
from runner.records.cause import hints
from runner.tools.init.modules import USUAL_PLACES
from runner.tools.init.trial import Trial
from trainkit.files import is_file, is_folder

KIT = "distributed-experiment-kit"
_NO_MODULE = re.compile(r"(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)'?")
_REFUSED = re.compile(r"(?:.{1,300}: )?[Ee]rror: (.{1,1000})")
_USAGE = 2
"""The exit code of argparse, click and others for arguments that do not fit."""
_PACKAGES = {
    "PIL": "Pillow", "yaml": "PyYAML", "cv2": "opencv-python", "sklearn": "scikit-learn", "skimage": "scikit-image",
    "pytorch_lightning": "pytorch-lightning", "hydra": "hydra-core", "dotenv": "python-dotenv", "attr": "attrs",
    "bs4": "beautifulsoup4", "git": "GitPython", "dateutil": "python-dateutil",
    "Levenshtein": "levenshtein",
}  # fmt: skip
"""Packages whose name is not that of their module."""
INIT, RUN = "runner init", "runner run"
_RANK = re.compile(r"^\[rank\d{1,6}\]:")
_NO_FILE = re.compile(r"FileNotFoundError: .{0,40}No such file or directory: '(.{1,300})'")
_PLACE = re.compile(r'(?:\[rank\d{1,6}\]:)?\s*File "(.{1,300})", line (\d{1,9})')
_TAKES_GPU = re.compile(
    r"NVIDIA driver|CUDA GPUs are available|not compiled with CUDA|CUDA unavailable|(?i:nccl).{0,200}GPU|no GPUs found"
    r"|Distributed package doesn't have NCCL"
)
_WANDB = re.compile(r"wandb.{0,100}(?:log ?in|api.?key)|api_key not configured", re.IGNORECASE)
_ASKS = re.compile(r"\binput\(|\bstdin\b|\bgetpass\b|\bPrompt\b")
_OF_TORCH = ("torch", "functorch")
_REQUIREMENTS = ("requirements.txt", "requirements.lock", "requirements/base.txt")


def run_command(script: Path) -> str:
    """Return the command that runs a script without a definition, given in the current folder."""
    return f"{RUN} {shlex.quote(os.path.relpath(script))}"


def torch_is_missing() -> str:
    """Return the line for a machine on which nothing can be run."""
    kit = f"pip install '{KIT}[torch]'"
    return f"torch is not installed for {one_line(sys.executable)}, so nothing can be run here: {kit}"


def describe(trial: Trial, root: Path, script: str, command: str) -> tuple[str, bool]:
    """Return why the script failed, and whether what it printed is worth keeping; the command is the person's."""
    failure = trial.record.failure
    lines = failure.last_lines if failure else []
    why = (failure and failure.cause) or (lines[-1] if lines else "")
    if found := _NO_MODULE.search(why):
        return _no_module(found[1], root, script), False
    given = f"{INIT} {shlex.quote(as_path(script))}" if command == INIT else command
    if failure and failure.exit_code == _USAGE and (found := _REFUSED.match(why)):
        return one_line(f"{script}: {found[1]}; its arguments come last: {given} -- ARGS", 1000), False
    place = _last_own_line(lines, root)
    kind, _, text = why.partition(": ")
    if text and place.endswith(f": {text}"):  # an exception without a text, such as `AssertionError`
        why = f"{kind} at {place}"
    whole = " ".join(lines[lines.index(why) :]) if why in lines else why
    said = one_line(whole or trial.record.reason or "it printed nothing", 300)
    where = f"everything it printed is in {one_line(trial.folder / 'raw')}"
    way_out = _way_out(why, place, root, script)
    hint = hints().get(failure.hint) if failure and failure.hint else None
    if hint and not way_out:
        way_out = f"hint {hint.name}: {hint.means} {hint.do}".rstrip(".")
    way_out = way_out or f"mend that, or give it arguments: {given} -- ARGS"
    if command == INIT:
        way_out += "; --no-try leaves this run out"
    return f"{one_line(script)} failed in its first run: {said}; {where}; {way_out}", True


def _way_out(why: str, place: str, root: Path, script: str) -> str:
    """Return what a person can do about the failure of a script that was started here as it is; empty if unknown."""
    if why.startswith("EOFError") or _ASKS.search(place):
        return f"it asks for input at {place}, and a run has no terminal: let it take that from an argument"
    if _WANDB.search(why):
        return "write WANDB_MODE=offline before the command, and it logs in nowhere"
    if place and _TAKES_GPU.search(why):
        return f"it takes a GPU at {place}"
    if path := _beside(why, root, script):
        return f"{shown(path)} is beside the script: call the runner in {one_line((root / script).parent)}"
    return ""


def _beside(why: str, root: Path, script: str) -> str:
    """Return the path that a script misses here, if it is there for who calls the script in its own folder."""
    found = _NO_FILE.search(why)
    folder = (root / script).parent
    if found is None or folder == root or Path(found[1]).is_absolute():
        return ""
    first = Path(found[1]).parts[0]
    is_there = os.path.lexists(folder / first) and not os.path.lexists(root / first)
    return found[1] if first != ".." and is_there else ""


def _last_own_line(lines: list[str], root: Path) -> str:
    """Return the last line of the project's own sources in a traceback, with its place."""
    for place, code in reversed([*pairwise(lines)]):
        found = _PLACE.match(place)
        path = root / found[1] if found else root
        if found and path.is_relative_to(root) and "site-packages" not in path.parts and is_file(path):
            text = _RANK.sub("", code).strip()
            return one_line(f"{path.relative_to(root)}:{found[2]}: {text}", 200)
    return ""


def _no_module(module: str, root: Path, script: str) -> str:
    first = module.partition(".")[0]
    if first in _OF_TORCH:
        return torch_is_missing()
    said = f"{one_line(script)} imports {shown(module)}, which is not there"
    for place in USUAL_PLACES:
        if is_file(root / place / f"{first}.py") or is_folder(root / place / first):
            there = one_line(root / place / first)
            return f'{said} for it, although {there} is: add path = ["{place or "."}"] to [tool.runner]'
    install = f"pip install {_PACKAGES.get(first, first.replace('_', '-'))}"
    if wanted := next((name for name in _REQUIREMENTS if is_file(root / name)), None):
        install = f"pip install -r {wanted}"
    elif is_file(root / "pyproject.toml"):
        install += ", or pip install -e . for all that the project needs"
    return f"{said}: {install} (for {one_line(sys.executable)})"
