"""Kill a training at a random step, restart it, and compare it with an uninterrupted one."""

import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile
from pathlib import Path
from typing import NamedTuple

from runner.tools.check.mistakes import Verdict
from runner.tools.check.observation import Pass, Place, Rank, Sample, read
from runner.tools.check.processes import Job, Program, put_back, run, written

CHECKPOINT, FOLDER = "{checkpoint}", "{folder}"
"""Placeholders in the arguments of the restart, for the last file saved and its folder."""
_MOST_STEPS = 2000
_SEED, _OTHER_SEED = "7", "11"


def check_resume(
    program: Program,
    world: int,
    seconds: float,
    folder: Path,
    say: Callable[[str], None],
    again: Sequence[str],
    choose: Callable[[int, int], int] = random.randint,
) -> Verdict:
    """Check that a killed and restarted training continues like an uninterrupted one.

    `again` lists extra arguments for the restart. `seconds` limits each run. The training is killed before the step
    that `choose(first, last)` returns.
    """
    verdict = Verdict()
    settings = {"KIT_CHECK_STEPS": str(_MOST_STEPS), **program.settings, "KIT_CHECK_STEPS_HARD": "1"}
    settings |= {"KIT_CHECK_SEED": _SEED, "KIT_CHECK_WHOLE": "1"}
    say(f"{_processes(world)}, to the end")
    failure = run(Job(program, world, folder / "whole", settings), seconds)
    whole = read(folder / "whole")
    saves = sorted(event["step"] for rank in whole for event in rank.of("saved"))
    steps = 1 + max((step for rank in whole for step, _ in rank.steps), default=-1)
    first = next((step for step in saves if 0 < step < steps), None)
    if failure:
        way = "; --steps N ends each run earlier" if "in time" in failure else ""
        verdict.unknown.append(f"{_processes(world)}: {failure}{way}")
    elif not steps:
        verdict.unknown.append(f"{_processes(world)}: no torch optimizer made a step")
    elif first is None:
        when = "none is saved" if not saves else "it is saved only after the last"
        verdict.unknown.append(f"no checkpoint: in {steps} steps {when}")
    if first is None or verdict.unknown:
        return verdict
    last = saves_again(whole[0], [step for step in saves if step < steps])
    killed = choose(first, last - 1 if first < last else steps - 1)
    say(f"{_processes(world)}, killed before step {killed} of {steps}")
    try:
        run(Job(program, world, folder / "ended", {**settings, "KIT_CHECK_KILL": str(killed)}), seconds)
        before = read(folder / "ended")
        apart = _first_apart(whole, before, "weights", 0)
        if not before or apart is not None:
            step = apart.step if apart else 0
            verdict.unknown.append(f"two runs of the same program already differ from step {step} on")
            return verdict
        path = next((event["path"] for event in reversed(before[0].events) if event.get("path")), CHECKPOINT)
        words = [word.replace(CHECKPOINT, path).replace(FOLDER, str(Path(path).parent)) for word in again]
        resumed = replace(program, words=[[*first_words, *words] for first_words in program.words])
        for count in (world, 1):
            say(f"{_processes(count)}, restarted")
            job = Job(resumed, count, folder / f"again-{count}", {**settings, "KIT_CHECK_SEED": _OTHER_SEED})
            failure = run(job, seconds)
            files = {name for name, _ in written(folder / "ended")}
            _judge(whole, read(job.folder), before[0], files, failure, count, verdict)
        if first >= last:
            how = "later changes, such as of the learning rate, were not compared; train longer"
            verdict.unknown.append(f"after the restart nothing is saved, or no epoch begins: {how}")
    finally:
        put_back(folder / "ended")
    return verdict


def saves_again(rank: Rank, saves: list[int]) -> int:
    """Return the step of the last save or of the last change of epoch, whichever is earlier.

    If the training is killed before this step, another save and another epoch follow.
    """
    begun = [training.first_step for training in rank.loaders if training.trains]
    return min([saves[-1], *begun[1:][-1:]])


def _processes(count: int) -> str:
    return "one process" if count == 1 else f"{count} processes"


def _judge(
    whole: list[Rank], again: list[Rank], before: Rank, files: set[str], failure: str, count: int, verdict: Verdict
) -> None:
    loads = again[0].of("loaded") if again else iter(())
    saved, loaded = before.first("saved"), next((event for event in loads if event["path"] in files), None)
    place: Place = (loaded or saved or {"place": []})["place"]
    who, is_same = f"restarted with {_processes(count)}", count == len(whole)
    if not again or not again[0].steps:
        kind = ("resumed-fails" if failure else "resumed-steps") if is_same else "resumed-elsewhere"
        verdict.add(kind, f"{who}: {failure or 'no training step'}", place)
        return
    if not is_same and any(event["sharded"] for event in whole[0].of("model")):
        verdict.facts.append(f"{who}: it trains; weights in other shards are not compared")
        return
    weights = again[0].steps[0, min(optimizer for _, optimizer in again[0].steps)]["weights"]
    start = next((step for (step, _), event in whole[0].steps.items() if event["weights"] == weights), None)
    if not start and loaded is None:
        how = f'give the arguments of the restart: --resume-args "--resume {CHECKPOINT}"'
        verdict.unknown.append(f"{who}: it was not seen to load its checkpoint; {how}")
    elif not start:
        evidence = "the first step has weights that the whole run never had" if start is None else "it begins anew"
        verdict.add("resumed-weights", f"{who}: {evidence}", place, step=start)
    else:
        verdict.facts.append(f"{who}: continues from step {start} with the same weights, bit for bit")
        if is_same:
            for kind, apart in _differences(whole, again, start):
                evidence, at = f"{who}: {apart.evidence}", apart.place or place
                verdict.add(kind, evidence, at, rank=apart.rank, step=apart.step)


class _Apart(NamedTuple):
    step: int
    rank: int
    evidence: str
    place: Place


def _differences(whole: list[Rank], again: list[Rank], start: int) -> Iterator[tuple[str, _Apart]]:
    if apart := _samples(whole, again, start):
        yield apart
    if rate := _first_apart(whole, again, "rate", start):
        yield "resumed-rate", rate._replace(evidence=f"at step {rate.step} the learning rate is {rate.evidence}")
    state = _first_apart(whole, again, "state", start)
    if state and state.step == start:
        yield "resumed-optimizer", state._replace(evidence="the optimizer's state, such as its momentum, differs")
    for generator in ("of torch", "of numpy", "of random"):
        is_used = len({event[generator] for event in whole[0].steps.values()}) > 1
        noise = _first_apart(whole, again, generator, start)
        if noise and is_used:
            what = f"from step {noise.step} on the random numbers {generator} differ"
            yield "resumed-noise", noise._replace(evidence=what)
            break
    steps = [max(step for step, _ in rank.steps) + 1 for rank in (whole[0], again[0])]
    if start + steps[1] != steps[0] and not any(any(rank.of("cut")) for rank in (whole[0], again[0])):
        evidence = f"it trains up to step {start + steps[1]}, the uninterrupted run up to {steps[0]}"
        yield "resumed-steps", _Apart(min(start + steps[1], steps[0]), 0, evidence, [])


def _first_apart(whole: list[Rank], again: list[Rank], key: str, start: int) -> _Apart | None:
    for (step, optimizer), event in sorted(again[0].steps.items()) if again else ():
        for ours, theirs in zip(whole, again, strict=False):
            value = theirs.steps.get((step, optimizer), event)[key]
            other = ours.steps.get((start + step, optimizer), {}).get(key)
            if None not in (value, other) and value != other:
                return _Apart(start + step, theirs.rank, f"{value} instead of {other}", [])
    return None


def _samples(whole: list[Rank], again: list[Rank], start: int) -> tuple[str, _Apart] | None:
    done, wanted, had = Counter[Hashable](), Counter[Hashable](), Counter[Hashable]()
    first, total = None, 0
    for ours, theirs in zip(whole, again, strict=False):
        passes = [training for training in ours.loaders if training.trains]
        given_to = next((training for training in theirs.loaders if training.trains), None)
        if not passes or given_to is None:
            return _samples_by_hand(ours, theirs, start)
        epoch = max(at for at, training in enumerate(passes) if training.first_step <= start)
        before, rest = _split(passes, epoch, start)
        given = [_name(sample) for sample in given_to.samples[_passed_over(given_to) :]]
        is_broken = passes[epoch].is_broken or given_to.is_broken
        if is_broken:  # one training ended within the epoch
            rest, given = rest[: len(given)], given[: len(rest)]
        done.update(before)
        wanted.update(rest)
        had.update(given)
        total += len(rest)
        if rest != given and first is None:
            said = f"in epoch {epoch + 1}, from step {start} on, "
            first = _Apart(start, ours.rank, f"{said}the samples have another order", given_to.place)
    if first is None:
        return None
    if wanted != had and (not is_broken or set(done) & set(had)):
        more, fewer = (had - wanted).total(), (wanted - had).total()
        what = f"{more} samples are repeated and {fewer} of {total} are skipped"
        return "resumed-samples", first._replace(evidence=f"{said}{what}")
    return "resumed-order", first


def _passed_over(training: Pass) -> int:
    if training.again or training.is_skipped:
        return 0
    passed = [*takewhile(lambda batch: not batch.uses, training.batches)]
    return sum(len(batch.samples) for batch in passed) if len(passed) < len(training.batches) else 0


def _name(sample: Sample) -> Hashable:
    return sample[0] if sample[0] is not None else sample[1]


def _split(passes: list[Pass], epoch: int, start: int) -> tuple[list[Hashable], list[Hashable]]:
    lengths = [after.first_step - before.first_step for before, after in pairwise(passes)]
    training = passes[epoch]
    steps = lengths[epoch] if epoch < len(lengths) else next(iter(lengths), len(training.batches))
    done = round((start - training.first_step) * len(training.batches) / max(steps, 1))
    names, at = (
        [_name(sample) for sample in training.samples],
        sum(len(each.samples) for each in training.batches[:done]),
    )
    return names[:at], names[at:]


def _samples_by_hand(whole: Rank, again: Rank, start: int) -> tuple[str, _Apart] | None:
    """Compare the first batch after the restart by content, in a training without a loader."""
    ours, theirs = _by_step(whole), _by_step(again)
    wanted, given = ours.get(start), theirs.get(0)
    if not wanted or not given or wanted == given:
        return None
    before = next((step for step, hashes in ours.items() if step < start and hashes == given), None)
    if before is None:
        evidence = f"at step {start} other samples enter the model"
        return "resumed-order", _Apart(start, whole.rank, evidence, [])
    evidence = f"at step {start} the samples of step {before} enter the model again"
    return "resumed-samples", _Apart(start, whole.rank, evidence, [])


def _by_step(rank: Rank) -> dict[int, list[int]]:
    hashes: dict[int, list[int]] = {}
    for event in rank.of("forward"):
        if event["train"]:
            hashes.setdefault(event["step"], []).extend(event["hashes"] or [])
    return hashes
