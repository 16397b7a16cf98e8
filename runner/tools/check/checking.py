"""Runs a program with one process, with several, and with one that has the batches of all; then judges."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from runner.tools.check.finding import Verdict
from runner.tools.check.judge_evaluation import judge_evaluation, judge_prints
from runner.tools.check.judge_samples import judge_samples
from runner.tools.check.judge_weights import judge_gradients, judge_randomness, judge_weights
from runner.tools.check.observation import Rank, read
from runner.tools.check.processes import Ended, Job, run_side_by_side

_SEED_ALONE, _SEED = "20240501", "7"


@dataclass(frozen=True)
class Program:
    """What is checked: its words behind `python` for a number of processes, and where it is started.

    One that is `alone` starts its processes itself.
    """

    words: Callable[[int], list[str]]
    root: Path
    search: tuple[str, ...] = ()
    alone: bool = False
    device: str = "cpu"
    settings: dict[str, str] = field(default_factory=dict)


def check(program: Program, world: int, seconds: float, folder: Path, say: Callable[[str], None]) -> Verdict:
    """Say whether `world` processes train what one trains; files go to `folder`."""

    def job(name: str, processes: int, **settings: str) -> Job:
        return Job(
            program.words(processes),
            program.root,
            program.search,
            processes,
            folder / name,
            program.alone,
            {**program.settings, "KIT_CHECK_SEED": _SEED, **settings},
            program.device,
        )

    verdict = Verdict()
    say("one process")
    (ended,) = run_side_by_side([job("alone", 1, KIT_CHECK_SEED=_SEED_ALONE)], seconds)
    alone = _rank(read(folder / "alone"), ended, "one process", verdict)
    caps = _caps(alone) if alone else {}
    say(f"{world} processes")
    (ended,) = run_side_by_side([job("ranks", world, KIT_CHECK_CAPS=json.dumps(caps), **_limit(alone))], seconds)
    ranks = read(folder / "ranks")
    first = _rank(ranks, ended, f"{world} processes", verdict)
    if alone is None or first is None:
        return verdict
    if len(ranks) != world or any(rank.world != world for rank in ranks) or not any(ranks[0].of("group")):
        verdict.unknown.append(
            f"{world} processes: they form no group of {world} (torch.distributed.init_process_group); each trains alone"
        )
        return verdict
    equal = judge_weights(ranks, verdict)
    judge_samples(alone, ranks, program.root, verdict)
    replay = order = None
    failure = ""
    if equal:
        kept, quiet = str(folder / "ranks"), {}
        if any(any(rank.of("noise")) for rank in ranks):
            say(f"{world} processes without noise, for the gradients of a few steps")
            quiet = {"KIT_CHECK_QUIET": "1"}
            kept = str(folder / "quiet")
            run_side_by_side(
                [job("quiet", world, KIT_CHECK_MODE="keep", KIT_CHECK_CAPS=json.dumps(caps), **quiet)], seconds
            )
        say("one process with the batches of all")
        settings = {"KIT_CHECK_MODE": "replay", "KIT_CHECK_KEPT": kept, **quiet, **_sequential(alone, first, world)}
        ended, _ = run_side_by_side(
            [job("replay", 1, **settings), job("order", 1, KIT_CHECK_REVERSED="1", **settings)], seconds
        )
        failure = ended.failure
        replay, order = next(iter(read(folder / "replay")), None), next(iter(read(folder / "order")), None)
        judge_gradients(ranks, alone, replay, order, failure, program.root, verdict)
    judge_evaluation(alone, ranks, verdict)
    judge_randomness(alone, ranks, replay, verdict)
    judge_prints(ranks, verdict)
    troubles = dict.fromkeys(event["text"] for rank in (alone, *ranks) for event in rank.of("trouble"))
    verdict.unknown += [f"the observer: {text}" for text in troubles]
    return verdict


def _rank(ranks: list[Rank], ended: Ended, who: str, verdict: Verdict) -> Rank | None:
    """Return the first rank; None if the run failed or trained nothing, which is told to the verdict."""
    if ended.failure:
        verdict.unknown.append(f"{who}: {ended.failure}")
        return None
    if not ranks or not any(rank.steps for rank in ranks):
        verdict.unknown.append(f"{who}: no optimizer of torch made a step")
        return None
    return ranks[0]


def _caps(alone: Rank) -> dict[str, int]:
    """Return at how many batches passes were cut with one process, so that they are with several."""
    caps: dict[str, int] = {}
    for event in alone.of("pass_end"):
        if event["cut"] and event["batches"] > 1:
            kind = "train" if event["trains"] else "other"
            caps[kind] = max(caps.get(kind, 0), event["batches"])
    return caps


def _limit(alone: Rank | None) -> dict[str, str]:
    """Return the steps after which a training without loaders was ended, so that it is with several."""
    if alone is None or not any(alone.of("cut")) or alone.loaders:
        return {}
    return {"KIT_CHECK_STEPS": str(max(step for step, _ in alone.steps) + 1)}


def _sequential(alone: Rank, first: Rank, world: int) -> dict[str, str]:
    """Say that the ranks' batches come one after the other, if one process makes up for the ranks by accumulation."""
    per_step = [
        next((event["backwards"] for event in rank.steps.values() if event["optimizer"] == 0), 1)
        for rank in (alone, first)
    ]
    return {"KIT_CHECK_SEQUENTIAL": "1"} if per_step[1] and per_step[0] == per_step[1] * world > per_step[1] else {}
