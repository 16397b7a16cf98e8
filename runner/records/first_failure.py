"""Find the first rank that failed, and the cause, from torchrun's reports and the last lines of each rank.

When a rank dies, the other ranks lose their connections and fail moments later. torchrun polls only ten times a second
and may name any of these ranks. So a rank that reports a lost connection counts as a victim if another rank failed
without such a report.
"""

import re
import signal
from collections.abc import Collection

from runner.core.text import escaped, listed, one_line
from runner.records import cause
from runner.records.cause import VICTIM
from runner.records.folder import RawFiles, end_of
from runner.records.schema import Failure, NodeExit, Outcome, RankFacts, Stuck

LINES_KEPT = 20
_LONGEST = 500
_TAIL_BYTES = 16_384
_REPORT_BYTES = 4_000_000
# Signals that end a process before it prints a reason.
_SILENT = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")
_UNEXPLAINED = 5
"""Number of last lines searched for a hint if there is no exception."""
# Beginning of torchrun's report of a failed worker.
_REPORT = re.compile(r"Sending process \d+ closing signal|failed \(exitcode: -?\d+\)")
# Failed worker in a ChildFailedError, torch 2.3 to 2.11 (torch/distributed/elastic/multiprocessing/errors).
_CHILD = re.compile(
    r"^ *time *: (\S+).*\n(?: *host.*\n)? *rank *: (\d{1,9})\s?\(local_rank:.*\n *exitcode *: (-?\d{1,9})", re.MULTILINE
)
_NOT_FIRST = re.compile(rf"{VICTIM.pattern}|killed by signal|keyboardinterrupt|signalexception", re.IGNORECASE)
_CLOSING = re.compile(r"Sending process (\d+) closing signal")


def first_failure(raw: RawFiles, outcome: Outcome | None, ranks: list[RankFacts]) -> Failure | None:
    """Return the rank or node whose failure came first, with the cause; None if nothing failed."""
    if outcome is None:
        return None
    if outcome.stuck and outcome.stopped_because in ("hung", "timed_out"):
        return _of_stuck(outcome.stuck, raw)
    failed = [node for node in outcome.exits if node.code != 0 or node.signal]
    if not failed:
        return None
    failure = _first(raw, failed, {facts.rank for facts in ranks if facts.status not in (None, "success")})
    if not failure.cause and outcome.stopped_because not in ("interrupted", "timed_out"):
        _explain(failure, raw, outcome, ranks)
    return failure


def _of_stuck(stuck: Stuck, raw: RawFiles) -> Failure:
    held = next((rank for rank in stuck.ranks if rank.rank == stuck.rank), None)
    lines = held.stack if held else [f"rank {rank.rank} {rank.words}" for rank in stuck.ranks]
    why = one_line(stuck.says[0], _LONGEST) if stuck.says else None
    rank, node = (held.rank, raw.layout.node_of(held.rank)) if held else (None, 0)
    return Failure(rank, node, last_lines=lines[:LINES_KEPT], cause=why, hint=cause.find_hint(stuck.says, [], []))


def _first(raw: RawFiles, failed: list[NodeExit], aborted: set[int]) -> Failure:
    layout = raw.layout
    removed = next((node for node in failed if node.removed), None)
    by_itself = [node for node in failed if not node.stopped] or failed
    launcher = removed or next((node for node in by_itself if node.signal), by_itself[0])
    reports = () if removed else (_CHILD.findall(_report(raw, node.node)) for node in failed)
    children = sorted((time, int(rank), int(code)) for report in reports for time, rank, code in report)
    words = {rank: _last_lines(raw, rank) for _, rank, _ in children}

    def innocence(child: tuple[str, int, int]) -> int:
        # 1 if the rank's last lines report a lost connection, 2 if the rank also printed run_stop, else 0.
        _, rank, code = child
        is_victim = code > 0 and any(map(VICTIM.search, words[rank]))
        return is_victim + (is_victim and rank in aborted)

    first = min(children, key=lambda child: (innocence(child), child), default=None)
    if first and first[2] > 0 and not words[first[1]]:
        # All ranks may exit with the same code while only one prints the error.
        first = next((child for child in children if child[2] == first[2] and words[child[1]]), first)
    if first is None or (launcher.signal and innocence(first)):
        return Failure(None, launcher.node, launcher.code, launcher.signal, _last_lines(raw, None, launcher.node))
    _, rank, code = first
    node, lines = layout.node_of(rank), words[rank]
    if innocence(first):
        # torchrun may see a victim end first and then terminate the rank that failed.
        guilty = (other for other in range(layout.world_size) if other not in words and _has_own_error(raw, other))
        if (other := next(guilty, None)) is not None:
            return Failure(other, layout.node_of(other), last_lines=_last_lines(raw, other))
        if left := _left(raw, node, rank, words):
            return left
    if code < 0:
        names = {number.value: number.name for number in signal.Signals}
        return Failure(rank, node, None, names.get(-code, f"signal {-code}"), lines)
    speaker = layout.first_rank(node)
    if code and not lines and speaker in aborted:
        # The node's first rank may be the only rank that prints the error.
        spoken = _last_lines(raw, speaker)
        lines = [] if any(map(VICTIM.search, spoken)) else spoken
    return Failure(rank, node, code, None, lines)


def _left(raw: RawFiles, node: int, victim: int, failed: Collection[int]) -> Failure | None:
    """Return the rank whose exit with code 0 made others fail; None if no rank left.

    torchrun reports each worker that failed and each worker that torchrun stopped. Every other worker has left
    (torch/distributed/elastic/multiprocessing/api.py).
    """
    others = [rank for rank in raw.layout.ranks_of(node) if rank not in failed]
    count = len(others) - len(set(_CLOSING.findall(_report(raw, node))))
    if not count:
        return None
    all_left = count == len(others)
    who = f"rank {listed(others)}" if all_left else f"{count} of the ranks {listed(others)}"
    why = f"{who} ended by itself (exit code 0) while rank {victim} still ran"
    why += ": all ranks must leave the training loop together (broadcast the decision)"
    first = Failure(others[0], node, 0, last_lines=_last_lines(raw, others[0])) if all_left else Failure(None, node)
    first.cause = why
    return first


def _explain(failure: Failure, raw: RawFiles, outcome: Outcome, ranks: list[RankFacts]) -> None:
    # A launcher may name a rank of a node whose exit was never reported.
    node = next((ended for ended in outcome.exits if ended.node == failure.node), NodeExit(failure.node))
    from_outside = [word for word in (outcome.stopped_because, node.why) if word]
    memory = ["the container ran out of memory"] if node.out_of_memory else []
    printed: list[list[str]] = []
    statements = []
    if failure.rank is not None:
        event = next((facts.error for facts in ranks if facts.rank == failure.rank), None) or ""
        error_file = cause.read_error_file(raw.output(failure.rank, "error.json"))
        statements = [error_file, cause.of_message(event.removeprefix("Refusal: "))]
    if failure.signal not in _SILENT:
        printed = _printed(raw, failure.rank, failure.node)
        # If the rank printed nothing, `last_lines` are those of its node's first rank.
        statements.append(cause.read(next(filter(any, printed), failure.last_lines)))
    statements = [statement for statement in statements if statement.cause]
    causes = [*from_outside, *memory, *(statement.cause for statement in statements)]
    failure.cause = one_line(causes[0], _LONGEST) if causes else None
    lines = [*from_outside, *(line for statement in statements for line in statement.lines)]
    if not statements and failure.signal not in _SILENT:
        lines += failure.last_lines[-_UNEXPLAINED:]
    ended = [failure.signal or "", *([cause.OUT_OF_MEMORY] if memory else [])]
    failure.hint = cause.find_hint(lines, [line for part in printed for line in part], ended)


def _report(raw: RawFiles, node: int) -> str:
    return end_of(raw.agents.get(node), _REPORT_BYTES)


def _last_lines(raw: RawFiles, rank: int | None, node: int = 0) -> list[str]:
    printed = next(filter(any, _printed(raw, rank, node)), [])
    return [escaped(line, _LONGEST) for line in printed if line][-LINES_KEPT:]


def _has_own_error(raw: RawFiles, rank: int) -> bool:
    """Return whether a rank's stderr ends with an exception other than a lost connection or a signal."""
    lines = _last_lines(raw, rank) if raw.output(rank, "stderr") else []
    error = cause.read(lines).cause
    return bool(error and lines[-1].endswith(error)) and not any(map(_NOT_FIRST.search, lines))


def _printed(raw: RawFiles, rank: int | None, node: int = 0) -> list[list[str]]:
    """Return the last lines of a rank's stderr and stdout, or of a node's launcher if `rank` is None.

    In a pod, the launcher and the processes share one log. A rank's lines then end where the launcher's report begins.
    """
    if rank is None:
        texts = [end_of(raw.agents.get(node), _TAIL_BYTES)]
    elif rank >= raw.layout.world_size:
        return []
    elif any(files := [raw.output(rank, stream) for stream in ("stderr", "stdout")]):
        texts = [end_of(path, _TAIL_BYTES) for path in files]
    else:
        text = end_of(raw.agents.get(raw.layout.node_of(rank)), _TAIL_BYTES)
        report = _REPORT.search(text)
        texts = [text[: text.rfind("\n", 0, report.start()) + 1] if report else text]
    return [[line for line in map(str.rstrip, text.splitlines()) if not line.startswith(":::MLLOG")] for text in texts]
