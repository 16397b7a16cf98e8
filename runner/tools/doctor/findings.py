"""The findings of `runner doctor`: state, place, fact and remedy."""

from dataclasses import dataclass

from runner.core.text import one_line

OK, WARNING, WRONG = "ok", "warning", "wrong"
STATES = (OK, WARNING, WRONG)


@dataclass(frozen=True)
class Finding:
    """One line of the report. Texts may come from engines, clusters and hosts, so each text is cut to one line.

    `check` is a stable name such as `shared-memory`. `where` names the machine, container, peer or node.
    """

    check: str
    state: str
    where: str
    seen: str
    mend: str = ""

    def __post_init__(self) -> None:
        for name in ("where", "seen", "mend"):
            object.__setattr__(self, name, one_line(getattr(self, name), 600))


def ok(check: str, where: str, seen: str) -> Finding:
    """Return a finding that needs no action."""
    return Finding(check, OK, where, seen)


def warning(check: str, where: str, seen: str, mend: str) -> Finding:
    """Return a finding that does not prevent a run, although the run may go wrong."""
    return Finding(check, WARNING, where, seen, mend)


def wrong(check: str, where: str, seen: str, mend: str) -> Finding:
    """Return a finding that will make a run fail."""
    return Finding(check, WRONG, where, seen, mend)


def of_error(check: str, where: str, error: object, mend: str) -> Finding:
    """Return a `wrong` finding for an error with text `fact: remedy`. If the text has no remedy, use `mend`."""
    seen, _, way = str(error).partition(": ")
    return wrong(check, where, seen, way or mend)
