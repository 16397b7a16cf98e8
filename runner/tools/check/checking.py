"""Run a program with one process, with N, and with one that trains on the batches of all N; then judge the runs."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from runner.tools.check.judge_evaluation import judge_evaluation, judge_prints
from runner.tools.check.judge_samples import judge_samples
from runner.tools.check.judge_weights import FEW_ELEMENTS, judge_gradients, judge_randomness, judge_rate, judge_weights
from runner.tools.check.mistakes import Verdict
from runner.tools.check.observation import Rank, read
from runner.tools.check.processes import Job, Program, run_side_by_side
from runner.tools.check.resuming import check_resume

_SEED_ALONE, _SEED = "20240501", "7"
_NAMED = 3


def check(
    program: Program,
    world: int,
    seconds: float,
    folder: Path,
    say: Callable[[str], None],
    again: Sequence[str] | None = None,
) -> Verdict:
    """Check that `world` processes train the same as one; `seconds` limits each run.

    If `again` gives the arguments of a restart, check instead that a killed training resumes correctly.
    """
    if again is not None:
        return check_resume(program, world, seconds, folder, say, again)
    runs = _Runs(program, seconds, folder, say)
    verdict = Verdict()
    failure, seen = runs.run("alone", 1, "one process", KIT_CHECK_SEED=_SEED_ALONE)
    alone = _trained(seen, failure, "one process", verdict)
    caps = json.dumps(_caps(alone) if alone else {})
    limit = {}
    if alone and any(alone.of("cut")) and not alone.loaders:  # end the ranks' run after as many steps
        limit = {"KIT_CHECK_STEPS": str(max(step for step, _ in alone.steps) + 1)}
    failure, ranks = runs.run("ranks", world, f"{world} processes", KIT_CHECK_CAPS=caps, **limit)
    first = _trained(ranks, failure, f"{world} processes", verdict)
    if alone is None or first is None:
        return verdict
    if alone.world > 1:
        how = "pass their number as an argument, for example -- --world-size {n}"
        verdict.unknown.append(f"one process: the program starts {alone.world} itself: {how}")
        return verdict
    if len(ranks) != world or any(rank.world != world for rank in ranks) or not any(first.of("group")):
        why = "each trains alone, without torch.distributed.init_process_group"
        verdict.unknown.append(f"{world} processes: they form no group: {why}")
        return verdict
    models = [model for rank in (alone, *ranks) if (model := rank.first("model"))]
    if not any(model["sharded"] for model in models) and len({model["parameters"] for model in models}) > 1:
        why = "each trains a part of the model, as in tensor or pipeline parallelism"
        verdict.unknown.append(f"{world} processes: {why}")
        return verdict
    is_equal = judge_weights(ranks, verdict)
    runs.look_for_clock(alone, ranks, verdict)
    judge_samples(alone, ranks, program.root, verdict)
    if is_equal:
        replay, order, failure = runs.replay(alone, ranks)
        judge_gradients(ranks, alone, replay, order, failure, program.root, verdict)
        judge_rate(alone, ranks, program.root, verdict)
    judge_evaluation(alone, ranks, program.root, verdict)
    judge_randomness(alone, ranks, verdict)
    judge_prints(ranks, verdict)
    verdict.not_checked += not_checked(alone, ranks)
    troubles = dict.fromkeys(event["text"] for rank in (alone, *ranks) for event in rank.of("trouble"))
    verdict.unknown += [f"the observer failed: {text}" for text in troubles]
    return verdict


def not_checked(alone: Rank, ranks: list[Rank]) -> list[str]:
    """Return the parts of the training that were compared only at its beginning, or not at all."""
    first, parts = ranks[0], []
    if any(first.of("scheduler")) or len({tuple(event["rate"]) for event in first.of("step")}) > 1:
        ours, theirs = ([*rank.of("step")][-1] for rank in (first, alone))
        last = f"{ours['rate'][0]:.3g} at step {ours['step']}, with one process {theirs['rate'][0]:.3g}"
        parts.append(f"learning rates after step 4: the last was {last} at step {theirs['step']}")
    if any(first.of("clip")):
        parts.append("gradient clipping after step 4")
    written = Counter(Path(path).name for rank in ranks for path in {event["path"] for event in rank.of("wrote")})
    if written:
        names = (f"{name} by {number} of {len(ranks)} ranks" for name, number in written.most_common(_NAMED))
        parts.append(f"files: {', '.join(names)}")
    if any(own.workers for own in first.trainings):
        parts.append("random numbers of loader workers")
    joins = [event for event in first.of("collective") if "broadcast" not in event["name"] and event["place"]]
    gradients = [event["place"][0] for event in joins if event["gradient"]]  # known only for the first steps
    figures = (event["place"][0] for event in joins if 0 < event["elements"] <= FEW_ELEMENTS)
    if figure := next((place for place in figures if place not in gradients), None):
        parts.append(f"figures combined across ranks ({figure[0]}:{figure[1]})")
    return parts


@dataclass(frozen=True)
class _Runs:
    program: Program
    seconds: float
    folder: Path
    say: Callable[[str], None]

    def run(self, name: str, world: int, what: str, **settings: str) -> tuple[str, list[Rank]]:
        """Run the program once. Return its failure ("" if it ended well), and the ranks that trained."""
        self.say(what)
        (failure,) = run_side_by_side([self._job(name, world, settings)], self.seconds)
        return failure, read(self.folder / name)

    def look_for_clock(self, alone: Rank, ranks: list[Rank], verdict: Verdict) -> None:
        """Report samples as unknown if the training ends by the clock: their number then varies between runs."""
        passes = [own for rank in (alone, *ranks) for own in rank.trainings]
        steps, others = len(alone.steps), len(ranks[0].steps)
        is_open = any(own.key == "by hand" or own.is_broken for own in passes)
        is_open |= len(alone.loaders) != len(ranks[0].loaders)
        if steps == others or not is_open or any(alone.of("cut")) or _caps(alone):
            return
        settings = {"KIT_CHECK_SEED": _SEED_ALONE, "KIT_CHECK_CLOCK": "4"}
        _, seen = self.run("clock", 1, "one process, with a faster clock", **settings)
        if seen and not any(seen[0].of("cut")) and len(seen[0].steps) != steps:
            how = f"one process takes {steps} steps, and {len(seen[0].steps)} with a faster clock"
            verdict.unknown.append(f"samples: the training ends by the clock: {how}; end it after a number of steps")
            for own in passes:
                own.is_whole = False

    def replay(self, alone: Rank, ranks: list[Rank]) -> tuple[Rank | None, Rank | None, str]:
        """Run one process on the batches of all ranks: once in the ranks' order, and once in reverse order.

        Return the two runs, and the first run's failure. If the model has dropout, the ranks first run again
        without it, so that one process can reproduce their gradients.
        """
        kept, quiet = "ranks", {}
        if any(True for rank in ranks for _ in rank.of("noise")):
            kept, quiet = "quiet", {"KIT_CHECK_QUIET": "1"}
            self.run(kept, len(ranks), f"{len(ranks)} processes, without dropout", KIT_CHECK_MODE="keep", **quiet)
        self.say("one process with the batches of all")
        settings = {"KIT_CHECK_MODE": "replay", "KIT_CHECK_KEPT": str(self.folder / kept), **quiet}
        one, several = (
            next((event["backwards"] for event in rank.steps.values() if event["optimizer"] == 0), 1)
            for rank in (alone, ranks[0])
        )
        if several and one == several * len(ranks):  # one process accumulates the batches of all ranks
            settings["KIT_CHECK_SEQUENTIAL"] = "1"
        jobs = [self._job("replay", 1, settings), self._job("order", 1, {"KIT_CHECK_REVERSED": "1", **settings})]
        # A program that starts its processes itself may use a fixed port, so its jobs run one after the other.
        groups = [[job] for job in jobs] if self.program.alone else [jobs]
        failure, *_ = (failure for group in groups for failure in run_side_by_side(group, self.seconds))
        if failure and not self.program.alone:
            rmtree(jobs[0].folder)
            (failure,) = run_side_by_side(jobs[:1], self.seconds)
        replay, order = (next(iter(read(self.folder / name)), None) for name in ("replay", "order"))
        return replay, order, failure

    def _job(self, name: str, world: int, settings: dict[str, str]) -> Job:
        return Job(self.program, world, self.folder / name, {"KIT_CHECK_SEED": _SEED, **settings})


def _trained(ranks: list[Rank], failure: str, who: str, verdict: Verdict) -> Rank | None:
    """Return the first rank. If the run cannot be judged, add the reason to the verdict and return None."""
    if failure:
        verdict.unknown.append(f"{who}: {failure}")
        return None
    if any(event["parts"] for rank in ranks for event in rank.of("model")):
        verdict.unknown.append(f"{who}: the model is split across the ranks (DTensor): not checked")
        return None
    if not ranks or not any(rank.steps for rank in ranks):
        verdict.unknown.append(f"{who}: no torch optimizer made a step")
        return None
    return ranks[0]


def _caps(alone: Rank) -> dict[str, int]:
    """Return the number of batches at which one process's passes were cut, for training and for other passes.

    The passes of the ranks are cut there too.
    """
    caps: dict[str, int] = {}
    for event in alone.of("pass_end"):
        if event["cut"] and event["batches"] > 1:
            kind = "train" if event["trains"] else "other"
            caps[kind] = max(caps.get(kind, 0), event["batches"])
    return caps
