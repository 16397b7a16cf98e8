"""Write events as JSON, with the lines of the program that caused them."""

import atexit
import functools
import json
import os
import sys
import time
from contextlib import contextmanager

_HERE = os.path.dirname(os.path.abspath(__file__))
_LIBRARIES = ("site-packages", "dist-packages", "<frozen")
_MOST_FRAMES = 12


class Recorder:
    """Writes the event file of one process. Forks of the process write nothing."""

    clock = staticmethod(time.monotonic)  # kept, as the program's clock may be sped up

    def __init__(self):
        self.rank = None
        self.world = None
        self.mode = os.environ.get("KIT_CHECK_MODE", "observe")
        self.folder = os.environ.get("KIT_CHECK_FOLDER", "")
        self.root = os.path.join(os.environ.get("KIT_CHECK_ROOT", os.getcwd()), "")
        self.is_whole = "KIT_CHECK_WHOLE" in os.environ
        self.at_exit = []
        self._pid = os.getpid()
        self._file = None
        self._troubles = set()
        self._is_own = {}

    def begin(self):
        """Open the event file. `end` will be called even if the process ends by `os._exit`."""
        self._pid = os.getpid()
        started = os.environ.pop("KIT_CHECK_RANK", None)  # removed, so that children name their files by pid
        name = f"{self._pid}.jsonl" if started is None else f"rank-{started}.jsonl"
        path = os.path.join(self.folder, name)
        # Line-buffered: a file that stops growing shows that the process waits.
        self._file = open(path, "w", 1, encoding="utf-8")  # noqa: SIM115 - open to the end
        rank, world = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
        self.be(int(rank) if rank.isdigit() else 0, int(world) if world.isdigit() else 1)
        atexit.register(self.end)
        leave = os._exit

        def _exit(code):
            self.end()
            leave(code)

        os._exit = _exit
        os.register_at_fork(after_in_child=lambda: setattr(os, "_exit", leave))

    def be(self, rank, world):
        """Set the rank and the world size."""
        if (rank, world) != (self.rank, self.world):
            self.rank, self.world = rank, world
            self.emit("rank", rank=rank, world=world)

    @property
    def is_here(self):
        """Whether this is the observed process, not a fork such as a loader worker."""
        return self._file is not None and os.getpid() == self._pid

    def emit(self, kind, **fields):
        """Write an event."""
        if self.is_here:
            self._file.write(json.dumps({"kind": kind, **fields}, default=repr) + "\n")

    def end(self):
        """Write the last event, once."""
        if self.is_here:
            self.sum_up("end")
            self._file.close()
            self._file = None

    def sum_up(self, kind):
        """Call the functions in `at_exit`, and write a final event."""
        for function in self.at_exit:
            with self.guarded():
                function()
        self.emit(kind)

    def leave(self):
        """End the program early, when enough events are recorded."""
        self.emit("cut")
        sys.stdout.flush()
        os._exit(0)

    @contextmanager
    def guarded(self):
        """Record an exception of the observer, and let the program continue. Equal exceptions are recorded once."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the program must continue
            text = f"{type(error).__name__}: {error}"
            if text not in self._troubles and len(self._troubles) < 20:
                self._troubles.add(text)
                self.emit("trouble", text=text[:300])

    def hook(self, owners, name, before=None, after=None):
        """Wrap the function `name` of `owners`: call `before(*args)` before it, and `after(result, *args)` after it."""
        function = getattr(owners[0], name)

        @functools.wraps(function)
        def hooked(*args, **kwargs):
            if before and self.is_here:
                with self.guarded():
                    before(*args, **kwargs)
            result = function(*args, **kwargs)
            if after and self.is_here:
                with self.guarded():
                    after(result, *args, **kwargs)
            return result

        for owner in owners:
            setattr(owner, name, hooked)

    def is_own(self, file):
        """Return whether a file belongs to the program, not to a library."""
        if file not in self._is_own:
            path = os.path.abspath(file)
            own = path.startswith(self.root) and not path.startswith(_HERE)
            self._is_own[file] = own and not any(word in path for word in _LIBRARIES)
        return self._is_own[file]

    def line(self, file, number, function):
        """Return one frame: [file relative to the root, line, function]."""
        return [os.path.relpath(os.path.abspath(file), self.root), number, function]

    def place(self, made=None):
        """Return the program's stack, innermost frame first: [file, line, function].

        If an object `made` is under construction, leave out the frames of its constructors.
        """
        found, frame = [], sys._getframe(1)
        while frame is not None and len(found) < _MOST_FRAMES:
            code = frame.f_code
            if self.is_own(code.co_filename) and (made is None or found or frame.f_locals.get("self") is not made):
                found.append(self.line(code.co_filename, frame.f_lineno, code.co_name))
            frame = frame.f_back
        return found


recorder = Recorder()
