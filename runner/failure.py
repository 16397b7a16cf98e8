"""Who failed first: read from what torchrun's agents say and from what the ranks printed last.

When one rank dies, the others fail moments later because it is gone, and torchrun, which looks ten times a second,
may name any of them. So a rank whose last words are about a lost peer is taken for a victim where another is not.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.schema import Failure, NodeExit, Outcome, RankFacts

if TYPE_CHECKING:
    from pathlib import Path

    from runner.layout import Layout
    from runner.record import RunFolder

LINES_KEPT = 12
_TAIL_BYTES = 16_384
# How torch 2.3 to 2.11 print a ChildFailedError (torch/distributed/elastic/multiprocessing/errors).
_CHILD = re.compile(
    r"time\s*:\s*(?P<time>\S+)\s+host\s*:[^\n]*\s+rank\s*:\s*(?P<rank>\d+)\s*\(local_rank:\s*\d+\)\s+"
    r"exitcode\s*:\s*(?P<code>-?\d+)"
)
# With these words torchrun begins to tell of a worker that failed.
_REPORT = re.compile(r"Sending process \d+ closing signal|failed \(exitcode: -?\d+\)")
_VICTIM = re.compile(
    r"connection (closed|reset|refused)|broken pipe|connection was (closed|reset)|peer .*(closed|lost)|"
    r"remote process exited|socket timeout|recvvalue failed|\[.*\]:\d+: .*(reset|closed)|distnetworkerror|"
    r"watchdog|application timeout caused pair closure",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _Child:
    rank: int
    code: int
    time: str


def first_failure(folder: RunFolder, layout: Layout, outcome: Outcome | None, ranks: list[RankFacts]) -> Failure | None:
    """Return the first failing rank, or the node whose launcher failed, or None where all ended well."""
    failed = [node for node in outcome.exits if node.code != 0 or node.signal] if outcome else []
    if not failed:
        return None
    if removed := next((node for node in failed if node.removed), None):
        return _of_launcher(folder, removed)
    children = [child for node in failed for child in _children(folder.agent(node.node))]
    words = {child.rank: _last_lines(folder, layout, child.rank) for child in children}
    aborted = {facts.rank for facts in ranks if facts.status not in (None, "success")}
    own = [node for node in failed if not node.stopped] or failed
    lost = [node for node in own if node.signal]
    if children:
        first = min(children, key=lambda child: (_innocence(child, words[child.rank], aborted), child.time, child.rank))
        if lost and _innocence(first, words[first.rank], aborted):
            return _of_launcher(folder, lost[0])
        node = _node_of(layout, first.rank)
        name = _signal_name(-first.code) if first.code < 0 else None
        code = first.code if first.code >= 0 else None
        return Failure(first.rank, node, code, name, words[first.rank])
    return _of_launcher(folder, own[0])


def _of_launcher(folder: RunFolder, node: NodeExit) -> Failure:
    return Failure(None, node.node, node.code, node.signal, _tail(folder.agent(node.node)))


def _innocence(child: _Child, words: list[str], aborted: set[int]) -> int:
    """Tell how likely a rank is only a victim: 1 if its last words are of a lost peer, 2 if it also ended in order.

    One that died by a signal or in silence is none.
    """
    speaks_of_a_peer = child.code > 0 and bool(_VICTIM.search("\n".join(words)))
    return speaks_of_a_peer + (speaks_of_a_peer and child.rank in aborted)


def _children(agent: Path) -> list[_Child]:
    if not agent.exists():
        return []
    text = agent.read_text("utf-8", errors="replace")
    return [_Child(int(found["rank"]), int(found["code"]), found["time"]) for found in _CHILD.finditer(text)]


def _node_of(layout: Layout, rank: int) -> int:
    return max(node for node in range(layout.nodes) if layout.first_rank(node) <= rank)


def _last_lines(folder: RunFolder, layout: Layout, rank: int) -> list[str]:
    """Return the end of a rank's stderr, or of its stdout where it said nothing there."""
    if rank >= layout.world_size:
        return []
    node = _node_of(layout, rank)
    local_rank = rank - layout.first_rank(node)
    own = [folder.rank(layout, node, local_rank, stream) for stream in ("stderr", "stdout")]
    if not any(path.exists() for path in own):  # a pod has one log for its launcher and all of its processes
        return _tail(folder.agent(node), _REPORT)
    return next((lines for path in own if (lines := _tail(path))), [])


def _tail(path: Path, until: re.Pattern[str] | None = None) -> list[str]:
    """Return the last lines of a file, or the last before a pattern; our own event lines are left out."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        text = file.read().decode("utf-8", "replace")
    if until and (found := until.search(text)):
        text = text[: text.rfind("\n", 0, found.start()) + 1]
    lines = [line.rstrip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith(":::MLLOG")][-LINES_KEPT:]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
