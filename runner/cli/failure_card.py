"""The card of a failed run: who failed first, the cause, what it means and what to do, and the last lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.core.text import escaped, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.records.schema import Failure, Record

_LONGEST = 500
_TITLE = "  {:<7} {}"


def failure_card(record: Record) -> Iterator[str]:
    """Yield the lines of the card, each printable; none for a run that did not fail by itself.

    What a launcher prints of being stopped by the runner explains nothing.
    """
    failure = record.failure
    if failure is None or record.status not in ("failed", "killed"):
        return
    yield _TITLE.format("first", _who(record, failure))
    if failure.cause:
        yield _TITLE.format("cause", one_line(failure.cause, _LONGEST))
    yield from _hint(failure.hint)
    if failure.last_lines:
        yield _TITLE.format("last", f"{len(failure.last_lines)} lines:")
    yield from (f"    {escaped(printed, _LONGEST)}" for printed in failure.last_lines)


def _who(record: Record, failure: Failure) -> str:
    """Name the process or the launcher that failed first, and its machine."""
    facts = next((one.facts for one in record.ranks if one.rank == failure.rank), {})
    exits = record.outcome.exits if record.outcome else []
    place = next((one.place for one in exits if one.node == failure.node), {})
    found = [one_line(word, 100) for word in (place.get("pod"), place.get("machine") or facts.get("host")) if word]
    who = f"rank {failure.rank} on node {failure.node}" if failure.rank is not None else f"node {failure.node}"
    return f"{who} ({', '.join(found)})" if found else who


def _hint(name: str | None) -> Iterator[str]:
    if not name:
        return
    from runner.records.hints import hints

    hint = hints().get(name)
    if hint:
        yield _TITLE.format("hint", f"{hint.name}: {hint.means}")
        yield _TITLE.format("", hint.do)
