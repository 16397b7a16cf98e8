"""What a check found: its state, what was seen, and the command that mends it."""

from dataclasses import dataclass

from runner.core.text import one_line

OK, WARNING, WRONG = "ok", "warning", "wrong"
STATES = (OK, WARNING, WRONG)


@dataclass(frozen=True)
class Finding:
    """One line of the report. Parts of it often come from an engine, a cluster or another host."""

    check: str
    """A stable name, for example `shared-memory`."""
    state: str
    """`ok`, `warning` (a run starts, and may go wrong) or `wrong` (it will not work)."""
    where: str
    """The machine, container, peer or node that it is about."""
    seen: str
    mend: str = ""
    """The command, or the sentence, that mends it."""

    def __post_init__(self) -> None:
        for name in ("where", "seen", "mend"):
            object.__setattr__(self, name, one_line(getattr(self, name), 600))


def count_states(findings: list[Finding]) -> dict[str, int]:
    """Count the findings of each state."""
    return {state: sum(finding.state == state for finding in findings) for state in STATES}


def ok(check: str, where: str, seen: str) -> Finding:
    """Make a finding that nothing is to be done about."""
    return Finding(check, OK, where, seen)


def warning(check: str, where: str, seen: str, mend: str) -> Finding:
    """Make a finding with which a run starts, and may go wrong."""
    return Finding(check, WARNING, where, seen, mend)


def wrong(check: str, where: str, seen: str, mend: str) -> Finding:
    """Make a finding with which a run will not work."""
    return Finding(check, WRONG, where, seen, mend)
