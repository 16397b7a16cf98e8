"""The levels of proof, and what is said of one run: the highest level that it reaches, and what stopped the next."""

from dataclasses import dataclass, field

LEVELS = {
    0: "the record is whole",
    1: "what its processes printed gives the same record",
    2: "run again, every loss and the final parameters are bit for bit the same",
}


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: `same` is None where it could not be checked, and `says` why."""

    name: str
    same: bool | None
    says: str

    def __str__(self) -> str:
        return f"{self.name}: {'not checked: ' if self.same is None else ''}{self.says}"


@dataclass
class Verdict:
    """What is said of a run: `stopped` names what kept it from the next level, nothing if no more was asked for."""

    run: str
    level: int | None = None
    stopped: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
