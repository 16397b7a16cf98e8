"""Starts training programs as forks of a process that has torch imported already.

Its input has one JSON object a line: `{"start": {"words", "cwd", "env", "output"}}` is answered with the number of the
process, `{"poll": number}` with its exit code or null.
"""

import json
import os
import runpy
import signal
import sys
import traceback
from pathlib import Path

import numpy as np  # noqa: F401 - programs find it imported
import sklearn.datasets
import sklearn.model_selection  # noqa: F401
import torch
import torch.distributed.optim
import torch.nn.parallel
import torch.utils.data


def _run(job):
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.setsid()
    out = os.open(job["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    path = job["env"]["PYTHONPATH"].split(os.pathsep)
    script, *rest = job["words"]
    sys.path[:0] = [str(Path(script).absolute().parent), *path]
    sys.argv = [script, *rest]
    torch.set_num_threads(1)
    import kit_check

    kit_check.install()
    code = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            sys.stderr.write(f"{end.code}\n")
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as Python does with what nobody catches
        traceback.print_exc()
        code = 1
    import atexit

    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    codes = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "start" in request:
            pid = os.fork()
            if not pid:
                answers.close()
                _run(request["start"])
            codes[pid] = None
            answer = pid
        else:
            pid = request["poll"]
            if codes[pid] is None:
                done, status = os.waitpid(pid, os.WNOHANG)
                codes[pid] = os.waitstatus_to_exitcode(status) if done else None
            answer = codes[pid]
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


main()
