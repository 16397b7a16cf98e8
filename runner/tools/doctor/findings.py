"""What a check says: its state, what was seen, and the command that mends it."""

from dataclasses import dataclass

from runner.core.text import one_line

OK, WARNING, WRONG = "ok", "warning", "wrong"
STATES = (OK, WARNING, WRONG)


@dataclass(frozen=True)
class Finding:
    """One line of the report; parts of it often come from an engine, a cluster or another host.

    `check` is a stable name, for example `shared-memory`. With a `warning` a run starts and may go wrong, with `wrong`
    it will not work. `where` is the machine, container, peer or node.
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
    """Make a finding that nothing is to be done about."""
    return Finding(check, OK, where, seen)


def warning(check: str, where: str, seen: str, mend: str) -> Finding:
    """Make a finding with which a run starts, and may go wrong."""
    return Finding(check, WARNING, where, seen, mend)


def wrong(check: str, where: str, seen: str, mend: str) -> Finding:
    """Make a finding with which a run will not work."""
    return Finding(check, WRONG, where, seen, mend)


def of_error(check: str, where: str, error: object, mend: str) -> Finding:
    """Make a finding of an error's line: what is wrong, a colon, and the way out; `mend` where it names none."""
    seen, _, way = str(error).partition(": ")
    return wrong(check, where, seen, way or mend)
