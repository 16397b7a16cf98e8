"""Record the files that a program writes while training, and copy old files before the program overwrites them.

The runner can then restore the old files, so that no later run resumes from a checkpoint. Files written before an
optimizer exists, such as downloaded data, are not recorded.
"""

import json
import os
import shutil
import sys
import time

from kit_check.recorder import recorder
from kit_check.state import state

_began = time.time()
_noted = set()
_KEPT = ("/dev/", "/proc/", "/sys/")
_inside = []
_read = {"size": 0, "paths": set()}


def of_torch(torch):
    """Install hooks on torch.save, torch.load, and Python's audit events for files and folders."""
    owners = [torch, torch.serialization]
    recorder.hook(owners, "save", lambda obj, f, *args, **kwargs: _checkpoint(_path(f)))
    recorder.hook(owners, "load", _load)
    sys.addaudithook(_audit)


def of_safetensors(module):
    """Install hooks on safetensors, which writes files without Python's audit events."""
    recorder.hook([module], "save_file", lambda tensors, filename, *args, **kwargs: _checkpoint(_path(filename)))


def _path(file):
    path = file if isinstance(file, (str, os.PathLike)) else getattr(file, "name", None)
    return os.path.realpath(path) if isinstance(path, (str, os.PathLike)) else None


def _load(f, *args, **kwargs):
    recorder.emit("loaded", path=_path(f), place=recorder.place())


def _checkpoint(path):
    if not (path and path.startswith(_own())):
        if path is not None:
            _note(path)
        recorder.emit("saved", step=state.steps, path=path, place=recorder.place())


def _own():
    return os.path.realpath(recorder.folder) + os.sep


def _audit(event, args):
    if _inside or not state.optimizers or event not in ("open", "os.mkdir", "os.rename", "os.remove"):
        return
    _inside.append(event)
    try:
        with recorder.guarded():
            path = args[1 if event == "os.rename" else 0]
            if not recorder.is_here or not isinstance(path, (str, os.PathLike)):
                return
            if event == "open" and not _writes(*args[1:]):
                path = os.path.realpath(path)
                if path not in _noted and path in _written():
                    recorder.emit("read_back")
            else:
                folder = args[-1] if event != "open" else -1  # shutil.rmtree passes a folder's descriptor
                _note(os.path.realpath(path if folder == -1 else os.path.join(f"/proc/self/fd/{folder}", path)))
    finally:
        _inside.pop()


def _written():
    noted = os.path.join(recorder.folder, "saved.txt")
    size = os.path.getsize(noted) if os.path.exists(noted) else 0
    if size != _read["size"]:
        with open(noted, encoding="utf-8") as file:
            _read.update(size=size, paths={json.loads(line)[0] for line in file if line.endswith("\n")})
    return _read["paths"]


def _writes(mode, flags):
    return bool(set(mode or "") & set("wax+")) or bool(isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR))


def _note(path):
    if path in _noted or path.startswith((_own(), *_KEPT)) or "__pycache__" in path:
        return
    _noted.add(path)
    copy = None
    if os.path.isdir(path):
        return
    if os.path.isfile(path) and os.path.getmtime(path) < _began:  # not another rank's new file
        copy = os.path.join(recorder.folder, f"before-{os.getpid()}-{len(_noted)}")
        shutil.copy2(path, copy)
    recorder.emit("wrote", path=path)
    with open(os.path.join(recorder.folder, "saved.txt"), "a", encoding="utf-8") as file:
        file.write(json.dumps([path, copy]) + "\n")
