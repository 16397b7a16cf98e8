"""The card of a failed run: who failed first, the cause, what it means and what to do, and the last lines."""

from __future__ import annotations

from collections.abc import Iterator

from runner.core.text import escaped, one_line
from runner.records.schema import Failure, Record, StuckRank

_LONGEST = 500
_TITLE = "  {:<7} {}"


def failure_card(record: Record) -> Iterator[str]:
    """Yield the lines of the card, each printable; none for a run that did not fail by itself.

    What a launcher prints of being stopped by the runner explains nothing.
    """
    failure = record.failure
    stuck = record.outcome.stuck if record.outcome else None
    if failure is None or not (record.status in ("failed", "killed") or (stuck and record.status == "timed_out")):
        return
    if not stuck or failure.rank is not None:
        yield _TITLE.format("first", _who(record, failure))
    if failure.cause:
        yield _TITLE.format("cause", one_line(failure.cause, _LONGEST))
    if held := next((one for one in stuck.ranks if one.rank == failure.rank), None) if stuck else None:
        yield _TITLE.format("event", _last_event(held))
    yield from _hint(failure.hint)
    if failure.last_lines:
        what = "the innermost line first" if stuck else f"{len(failure.last_lines)} lines"
        yield _TITLE.format("stack" if stuck else "last", f"{what}:")
    yield from (f"    {escaped(printed, _LONGEST)}" for printed in failure.last_lines)


def _who(record: Record, failure: Failure) -> str:
    """Name the process or the launcher that failed first, and its machine."""
    facts = next((one.facts for one in record.ranks if one.rank == failure.rank), {})
    exits = record.outcome.exits if record.outcome else []
    place = next((one.place for one in exits if one.node == failure.node), {})
    found = [one_line(word, 100) for word in (place.get("pod"), place.get("machine") or facts.get("host")) if word]
    who = f"rank {failure.rank} on node {failure.node}" if failure.rank is not None else f"node {failure.node}"
    return f"{who} ({', '.join(found)})" if found else who


def _last_event(held: StuckRank) -> str:
    if held.quiet_seconds is None:
        return "it has reported nothing"
    what = one_line(held.event, _LONGEST) if held.event else "a line that is no event"
    return f"its last one was {what}, {held.quiet_seconds:.0f} s before"


def _hint(name: str | None) -> Iterator[str]:
    if not name:
        return
    from runner.records.hints import hints

    hint = hints().get(name)
    if hint:
        yield _TITLE.format("hint", f"{hint.name}: {hint.means}")
        yield _TITLE.format("", hint.do)
