"""What a check finds: mistakes and notes, each with its place, its numbers and what mends it."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from runner.tools.check.observation import Place

MISTAKE, NOTE = "mistake", "note"
KINDS = {
    "overlap": (MISTAKE, "give each rank its own part: DistributedSampler(dataset), and no shuffle in the loader"),
    "missing-samples": (MISTAKE, "divide the work by the number of processes once: in the sampler, or by hand"),
    "leak": (MISTAKE, "split with the same seed on every rank: random_state=..., or generator=torch.Generator()"),
    "padded-evaluation": (
        MISTAKE,
        "evaluate on one rank, or leave the samples out that the sampler repeats before counting",
    ),
    "partial-evaluation": (MISTAKE, "sum the counts over the ranks (all_reduce) before the figure is computed"),
    "same-order": (MISTAKE, "call sampler.set_epoch(epoch) at the start of each epoch"),
    "not-averaged": (MISTAKE, "wrap the model in DistributedDataParallel, or average every gradient before the step"),
    "scaled-gradients": (
        MISTAKE,
        "use the mean over the global batch: DistributedDataParallel averages over the ranks",
    ),
    "uneven-weights": (MISTAKE, "weigh each rank by what its loss counts: sum, all_reduce the count, then divide"),
    "learning-rate": (MISTAKE, "raise the learning rate only as far as a step has more samples than with one process"),
    "clipped-apart": (MISTAKE, "clip the gradients behind their average over the ranks"),
    "initial-weights": (MISTAKE, "set one seed before the model is made, or broadcast its weights from rank 0"),
    "repeated-samples": (NOTE, "divide the stream by worker in __iter__: torch.utils.data.get_worker_info()"),
    "global-batch": (NOTE, "divide the batch size by the number of processes to compare at the same global batch"),
    "same-noise": (NOTE, "seed with seed + rank after the model is made, if the ranks' dropout shall differ"),
    "unsynchronised-buffers": (NOTE, "convert_sync_batchnorm makes the statistics those of the global batch"),
    "not-repeatable": (NOTE, "set a seed before anything is drawn at random"),
    "wrong-loss-print": (NOTE, "average the figure over the ranks before it is printed"),
    "resumed-fails": (MISTAKE, "mend what it says: a checkpoint that cannot be loaded is none"),
    "resumed-weights": (MISTAKE, "load the checkpoint on every rank before the first step, and all of the model"),
    "resumed-optimizer": (MISTAKE, "save optimizer.state_dict() with the weights, and load it"),
    "resumed-rate": (MISTAKE, "save scheduler.state_dict() with the weights, and load it"),
    "resumed-samples": (MISTAKE, "save the epoch and the batches that were done in it, and go on behind them"),
    "resumed-steps": (MISTAKE, "save how far the training is, and go on to the same end"),
    "resumed-order": (NOTE, "draw the order from a seed and the epoch: sampler.set_epoch(epoch), from the saved epoch"),
    "resumed-noise": (NOTE, "save the states of the random generators of every rank, and set them"),
    "resumed-elsewhere": (NOTE, "load what does not depend on the number of processes: map_location, one file for all"),
}
"""Each kind with its level and what mends it."""


@dataclass(frozen=True)
class Finding:
    """A finding; `file` and `line` are where it is mended, rank, epoch and step where it was seen first."""

    kind: str
    level: str
    evidence: str
    mend: str
    file: str | None = None
    line: int | None = None
    rank: int | None = None
    epoch: int | None = None
    step: int | None = None

    @property
    def title(self) -> str:
        """Its place and kind: `train.py:40: same-order`."""
        return f"{self.file}:{self.line}: {self.kind}" if self.file else self.kind


def found(kind: str, evidence: str, place: Place | None, mend: str = "", **where: int | None) -> Finding:
    """Make a finding at the innermost line of a place; `mend` is for where that of its kind does not fit."""
    file, line = (place[0][0], place[0][1]) if place else (None, None)
    return Finding(kind, KINDS[kind][0], evidence, mend or KINDS[kind][1], file, line, **where)


@dataclass
class Verdict:
    """What a check says: findings, and what could not be seen, with the reason.

    `compared` has the number of epochs or steps by what was compared in them, `not_checked` what was not.
    `off` and `order` are the differences of gradients: of each step, and by another order of the ranks.
    """

    findings: list[Finding] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    off: list[float] = field(default_factory=list)
    order: float | None = None
    compared: dict[str, int] = field(default_factory=dict)
    not_checked: list[str] = field(default_factory=list)

    @property
    def word(self) -> Literal["same", "differs", "unknown"]:
        """Say whether it is the same training."""
        if any(finding.level == MISTAKE for finding in self.findings):
            return "differs"
        return "unknown" if self.unknown else "same"

    def values(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        findings = [asdict(finding) for finding in self.findings]
        seen = {"facts": self.facts, "compared": self.compared, "not_checked": self.not_checked}
        return {"verdict": self.word, "findings": findings, "unknown": self.unknown, **seen}
