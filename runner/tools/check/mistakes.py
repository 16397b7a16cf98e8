"""Mistakes and notes that a check can report, their remedies, and the verdict."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from runner.tools.check.observation import Place

MISTAKE, NOTE = "mistake", "note"
MENDS = {
    "overlap": "use DistributedSampler(dataset), and no shuffle in the loader; divide a stream by rank and worker",
    "missing-samples": "divide the work by the number of processes only once: in the sampler, or by hand",
    "leak": "split with the same seed on every rank: random_state=..., or generator=torch.Generator()",
    "padded-evaluation": "evaluate on one rank, or drop the samples that the sampler repeats before counting",
    "partial-evaluation": "sum the counts over the ranks (all_reduce) before computing the figure",
    "same-order": "call sampler.set_epoch(epoch) in each epoch, or draw the order from a seed and the epoch",
    "not-averaged": "call the model wrapped in DistributedDataParallel, or average every gradient before the step",
    "scaled-gradients": "use the mean over the global batch: DistributedDataParallel averages over the ranks",
    "uneven-weights": "weight each rank by its count: sum the losses, all_reduce the count, then divide",
    "learning-rate": "raise the learning rate only in proportion to the samples per step",
    "clipped-apart": "clip gradients after averaging them over the ranks",
    "initial-weights": "set one seed before creating the model, or broadcast its weights from rank 0",
    "repeated-samples": "divide the stream by worker in __iter__: torch.utils.data.get_worker_info()",
    "global-batch": "divide the batch size by the number of processes to compare at the same global batch",
    "same-noise": "to vary dropout by rank, seed with seed + rank after creating the model",
    "unsynchronised-buffers": "use convert_sync_batchnorm for the statistics of the global batch",
    "not-repeatable": "set a seed before the first random draw",
    "wrong-loss-print": "average the figure over the ranks before printing it",
    "resumed-fails": "fix the error: a checkpoint that cannot be loaded is useless",
    "resumed-weights": "load the whole model from the checkpoint on every rank before the first step",
    "resumed-optimizer": "save optimizer.state_dict() with the weights, and load it",
    "resumed-rate": "save scheduler.state_dict() with the weights, and load it",
    "resumed-samples": "save the epoch and its number of finished batches, and continue after them",
    "resumed-steps": "save the progress of the training, and continue to the same end",
    "resumed-order": "draw the order from a seed and the epoch: sampler.set_epoch(epoch), with the saved epoch",
    "resumed-noise": "save and restore the states of every rank's random generators",
    "resumed-elsewhere": "make checkpoints independent of the number of processes: map_location, one file for all",
}
"""The remedy for each kind of finding."""
NOTES = {
    *("repeated-samples", "global-batch", "same-noise", "unsynchronised-buffers", "not-repeatable", "wrong-loss-print"),
    *("resumed-order", "resumed-noise", "resumed-elsewhere"),
}


@dataclass(frozen=True)
class Finding:
    """A mistake or note.

    `file` and `line` name the line to change. `rank`, `epoch` and `step` say where the mistake first occurred.
    """

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
        """The finding's place and kind: `train.py:40: same-order`."""
        return f"{self.file}:{self.line}: {self.kind}" if self.file else self.kind


def describe(kind: str, evidence: str, place: Place | None, **where: int | None) -> Finding:
    """Return a finding at the innermost line of a place."""
    file, line, *_ = place[0] if place else (None, None)
    return Finding(kind, NOTE if kind in NOTES else MISTAKE, evidence, MENDS[kind], file, line, **where)


@dataclass
class Verdict:
    """The result of a check. `unknown` lists the reasons why decisive facts are unknown.

    `compared` counts the epochs in which samples were compared, and the steps for weights, gradients and losses. `off`
    lists the relative error of the gradient at each step. `order` is the difference that reordering the ranks causes.
    """

    findings: list[Finding] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    off: list[float] = field(default_factory=list)
    order: float | None = None
    compared: dict[str, int] = field(default_factory=dict)
    not_checked: list[str] = field(default_factory=list)

    def add(self, kind: str, evidence: str, place: Place | None, **where: int | None) -> None:
        """Add a finding to the verdict."""
        self.findings.append(describe(kind, evidence, place, **where))

    @property
    def word(self) -> Literal["same", "differs", "unknown"]:
        """The verdict in one word."""
        if any(finding.level == MISTAKE for finding in self.findings):
            return "differs"
        return "unknown" if self.unknown else "same"

    def values(self) -> dict[str, Any]:
        """Return the verdict for JSON output."""
        fields = {name: value for name, value in asdict(self).items() if name not in ("off", "order")}
        return {"verdict": self.word, **fields}
