"""What a check says: mistakes and notes, each with its place, its numbers and what mends it; and the verdict."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from runner.tools.check.observation import Place

MISTAKE, NOTE = "mistake", "note"
MENDS = {
    "overlap": "divide: DistributedSampler(dataset), and no shuffle in the loader; a stream by rank and worker",
    "missing-samples": "divide the work by the number of processes once: in the sampler, or by hand",
    "leak": "split with the same seed on every rank: random_state=..., or generator=torch.Generator()",
    "padded-evaluation": "evaluate on one rank, or leave the samples out that the sampler repeats before counting",
    "partial-evaluation": "sum the counts over the ranks (all_reduce) before the figure is computed",
    "same-order": "call sampler.set_epoch(epoch) in each epoch, or draw the order from a seed and the epoch",
    "not-averaged": "call the model wrapped in DistributedDataParallel, or average every gradient before the step",
    "scaled-gradients": "use the mean over the global batch: DistributedDataParallel averages over the ranks",
    "uneven-weights": "weigh each rank by what its loss counts: sum, all_reduce the count, then divide",
    "learning-rate": "raise the learning rate only as far as a step has more samples than with one process",
    "clipped-apart": "clip the gradients behind their average over the ranks",
    "initial-weights": "set one seed before the model is made, or broadcast its weights from rank 0",
    "repeated-samples": "divide the stream by worker in __iter__: torch.utils.data.get_worker_info()",
    "global-batch": "divide the batch size by the number of processes to compare at the same global batch",
    "same-noise": "seed with seed + rank after the model is made, if the ranks' dropout shall differ",
    "unsynchronised-buffers": "convert_sync_batchnorm makes the statistics those of the global batch",
    "not-repeatable": "set a seed before anything is drawn at random",
    "wrong-loss-print": "average the figure over the ranks before it is printed",
    "resumed-fails": "mend what it says: a checkpoint that cannot be loaded is none",
    "resumed-weights": "load the checkpoint on every rank before the first step, and all of the model",
    "resumed-optimizer": "save optimizer.state_dict() with the weights, and load it",
    "resumed-rate": "save scheduler.state_dict() with the weights, and load it",
    "resumed-samples": "save the epoch and the batches that were done in it, and go on behind them",
    "resumed-steps": "save how far the training is, and go on to the same end",
    "resumed-order": "draw the order from a seed and the epoch: sampler.set_epoch(epoch), from the saved epoch",
    "resumed-noise": "save the states of the random generators of every rank, and set them",
    "resumed-elsewhere": "load what does not depend on the number of processes: map_location, one file for all",
}
"""What mends each kind."""
NOTES = {
    *("repeated-samples", "global-batch", "same-noise", "unsynchronised-buffers", "not-repeatable", "wrong-loss-print"),
    *("resumed-order", "resumed-noise", "resumed-elsewhere"),
}


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


def describe(kind: str, evidence: str, place: Place | None, **where: int | None) -> Finding:
    """Make a finding at the innermost line of a place."""
    file, line, *_ = place[0] if place else (None, None)
    return Finding(kind, NOTE if kind in NOTES else MISTAKE, evidence, MENDS[kind], file, line, **where)


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

    def add(self, kind: str, evidence: str, place: Place | None, **where: int | None) -> None:
        """Add a finding."""
        self.findings.append(describe(kind, evidence, place, **where))

    @property
    def word(self) -> Literal["same", "differs", "unknown"]:
        """Say whether it is the same training."""
        if any(finding.level == MISTAKE for finding in self.findings):
            return "differs"
        return "unknown" if self.unknown else "same"

    def values(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        fields = {name: value for name, value in asdict(self).items() if name not in ("off", "order")}
        return {"verdict": self.word, **fields}
