"""Imports torch once, and runs each script read from standard input, NAME FOLDER, in a forked child.

A name is that of a function in `scripts.py`, or the path of a file, which ends as it would in its own process.
"""

import hashlib
import json
import os
import runpy
import sys
from pathlib import Path

import torch._dynamo  # noqa: F401 - otherwise the first optimizer takes seconds to import it

from tests.trainkit.observed.base import made
from tests.trainkit.observed.scripts import SCRIPTS


def carry_out(name: str, folder: Path) -> None:
    os.chdir(folder)
    os.dup2(os.open("stdout", os.O_WRONLY | os.O_CREAT, 0o600), 1)
    os.dup2(os.open("stderr", os.O_WRONLY | os.O_CREAT, 0o600), 2)
    observer = sys.modules.get("kit_observer.hooks")
    if observer:  # start afresh
        os.environ.pop("KIT_OBSERVED_STDOUT")
        observer._output.__init__()
        observer._process.__init__(observer._output.write, is_child=False)
    if name not in SCRIPTS:
        sys.argv = [name]
        runpy.run_path(name, run_name="__main__")
        return
    model, optimizer = made()
    truth = SCRIPTS[name](model, optimizer)
    if isinstance(truth, tuple):
        model, truth = truth
    digest = hashlib.sha256()
    for value in model.state_dict().values():
        digest.update(value.numpy().tobytes())
    Path("truth.json").write_text(json.dumps({"weights": digest.hexdigest(), **truth}), "utf-8")
    os._exit(0)  # ten times as fast


def main() -> None:
    for line in sys.stdin:
        name, folder = line.split()
        child = os.fork()
        if not child:
            return carry_out(name, Path(folder))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return None


if __name__ == "__main__":
    main()
