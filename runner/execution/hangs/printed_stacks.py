"""The stack that a process printed as it was ended by SIGABRT, with PYTHONFAULTHANDLER set."""

from __future__ import annotations

from runner.core.layout import Layout
from runner.execution.hangs.position import Frame
from runner.records.folder import RunFolder
from runner.targets.look import main_thread
from trainkit import files

_LAST_BYTES = 100_000
_ABORTED = "Fatal Python error: Aborted"


def printed_stack(folder: RunFolder, layout: Layout, rank: int) -> tuple[Frame, ...]:
    """Return the main thread's frames, the innermost first; none if they are not there.

    A pod has one log for all of its processes: there the stack is that of a node's only rank.
    """
    raw = folder.raw_files(layout)
    node = layout.node_of(rank)
    path = raw.output(rank, "stderr") or (raw.agents.get(node) if layout.processes[node] == 1 else None)
    if path is None:
        return ()
    try:
        with files.open_file(path, folder.path) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _LAST_BYTES))
            text = file.read(_LAST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ()
    _, found, dump = text.rpartition(_ABORTED)
    return tuple((file, line, function) for file, line, function in main_thread(dump)) if found else ()
