"""Notes what the program saves, so that no later run goes on from it; what was there before is copied first."""

import functools
import json
import os
import shutil
import time

from kit_check.recorder import recorder

_began = time.time()
_noted = set()


def of_torch(torch):
    """Put the hook on torch.save."""
    save = torch.save

    @functools.wraps(save)
    def watched(value, file, *args, **kwargs):
        with recorder.guarded():
            if recorder.is_here and isinstance(file, (str, os.PathLike)):
                _note(os.path.realpath(file))
        return save(value, file, *args, **kwargs)

    torch.save = torch.serialization.save = watched


def _note(path):
    if path in _noted or path.startswith(os.path.realpath(recorder.folder) + os.sep):
        return
    _noted.add(path)
    copy = None
    if os.path.isfile(path) and os.path.getmtime(path) < _began:  # and not of another rank of this run
        copy = os.path.join(recorder.folder, f"before-{os.getpid()}-{len(_noted)}")
        shutil.copy2(path, copy)
    with open(os.path.join(recorder.folder, "saved.txt"), "a", encoding="utf-8") as file:
        file.write(json.dumps([path, copy]) + "\n")
