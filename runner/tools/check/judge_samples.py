"""Judge samples: the ranks together must train once on each sample that one process trains on."""

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import replace
from pathlib import Path

from runner.tools.check.mistakes import NOTE, Finding, Verdict, describe
from runner.tools.check.observation import Pass, Place, Rank, Sample
from runner.tools.check.source_lines import epoch_loop, iter_line, part_line, work_line

_STREAM = "_InfiniteConstantSampler"
"""The sampler that torch gives each loader over an IterableDataset."""
Name = Callable[[Sample], Hashable]


def judge_samples(alone: Rank, ranks: list[Rank], root: Path, verdict: Verdict) -> None:
    """Compare the samples of each epoch, and add the findings to the verdict."""
    ours, theirs = [rank.trainings for rank in ranks], alone.trainings
    if not all(ours) or not theirs:
        verdict.unknown.append("samples: no rows of a training batch were seen")
        return
    if len(theirs[0].samples) < len(ranks):
        why = f"there are only {len(theirs[0].samples)} for {len(ranks)} processes, which must share them"
        verdict.unknown.append(f"samples: {why}")
        return
    if len({own[0].key == "by hand" for own in ours}) > 1:
        why = "one rank loads them and sends them to the others"
        verdict.unknown.append(f"samples: {why}, so each rank's samples were not seen")
        return
    if any(each.is_cut_up for own in ours for each in own) and not any(each.is_cut_up for each in theirs):
        why = "rows change before they enter the model, or many are equal"
        verdict.unknown.append(f"samples: cannot tell which part of its batches each rank trains on: {why}")
        return
    name = naming([theirs], ours)
    if name is None:
        why = "each rank has its own list and changes samples at random, so none can be identified"
        verdict.unknown.append(f"samples: {why}")
    else:
        # If ranks split the data differently, samples also overlap or go missing: report only the first cause.
        cause = _leak(alone, ranks) or _overlap(theirs, ours, name, ranks, root) or _missing(theirs, ours, name, root)
        order = _same_order(theirs, ours, name, ranks, root)
        verdict.findings += [each for each in (cause, order, _repeated(theirs, name)) if each is not None]
        sizes = ", ".join(str(len(passes[0].samples)) for passes in ours)
        distinct = len({name(sample) for passes in ours for sample in passes[0].samples})
        verdict.facts.append(
            f"first epoch: one process trains on {len(theirs[0].samples)} samples, the ranks on {sizes}, "
            f"{distinct} of them distinct"
        )
    verdict.compared["samples"] = min(map(len, [theirs, *ours]))
    one, all_ = theirs[0].batch_size, sum(passes[0].batch_size for passes in ours)
    if per_step(alone, theirs) * 1.01 < sum(map(per_step, ranks, ours)):
        evidence = f"a step has {all_} samples with {len(ranks)} processes, {one} with one"
        verdict.add("global-batch", evidence, ours[0][0].loader)


def per_step(rank: Rank, passes: list[Pass]) -> float:
    """Return the number of samples per optimizer step: batch size times backward passes."""
    backwards = [event["backwards"] for event in rank.steps.values() if event["optimizer"] == 0]
    return passes[0].batch_size * max(1, backwards[0] if backwards else 1)


def naming(theirs: list[list[Pass]], ours: list[list[Pass]]) -> Name | None:
    """Return a function that identifies samples, by index or by content. Returns None if neither is reliable.

    Contents may repeat, or change by noise and padding. Indices mislead if the ranks have different lists of samples.
    """
    indexed = all(sample[0] is not None for passes in ours for each in passes for sample in each.samples)
    is_noisy, per_rank = False, []
    for passes in ours:
        contents: dict[Hashable, Hashable] = {}
        for index, content in (sample for each in passes for sample in each.samples):
            if index is not None and content is not None:
                is_noisy |= contents.setdefault(index, content) != content
        per_rank.append(contents)
    if indexed:
        sizes = {each.size for passes in (*theirs, *ours) for each in passes}
        first, *others = per_rank
        shared = [(first[index], other[index]) for other in others for index in first.keys() & other.keys()]
        agree = sum(a == b for a, b in shared)
        if len(sizes) == 1 and (is_noisy or agree >= 0.9 * len(shared)):
            return lambda sample: ("index", sample[0])
    if is_noisy or any(sample[1] is None for passes in ours for each in passes for sample in each.samples):
        return None
    return lambda sample: ("content", sample[1])


def _allowed(ours: list[list[Pass]]) -> int:
    """Return how many samples of an epoch may repeat or be missing: about one global batch."""
    total = sum(len(own[0].samples) for own in ours)
    batch = sum(own[0].batch_size for own in ours)
    return max(len(ours), min(batch, total // 8), total // 50)


def _overlap(theirs: list[Pass], ours: list[list[Pass]], name: Name, ranks: list[Rank], root: Path) -> Finding | None:
    natural = Counter(name(sample) for sample in theirs[0].samples)
    for epoch in range(min(map(len, ours))):
        counts = [Counter(name(sample) for sample in own[epoch].samples) for own in ours]
        total = sum(counts, Counter())
        # The ranks may repeat samples that one process repeats, such as equal rows or draws with replacement.
        extra = sum(max(0, number - max(1, natural[key], *(c[key] for c in counts))) for key, number in total.items())
        own = sum(number - 1 for number in natural.values())
        identical = len({tuple(name(sample) for sample in own[epoch].samples) for own in ours}) == 1
        if (identical and len(ours) > 1) or (extra > _allowed(ours) and own < 0.02 * natural.total()):
            place = _where(ours[0][epoch], root)
            if ours[0][epoch].sampler == "DistributedSampler" and not identical:
                place = differing_draw(ranks) or place  # the sampler divides lists that differ
            rows = sum(len(passes[epoch].samples) for passes in ours)
            evidence = (
                f"in epoch {epoch + 1} {extra} of the {rows} samples of the ranks occur on another rank too; "
                f"{len(total)} are distinct, one process has {len(natural)}"
            )
            if identical:
                evidence += "; every rank has the same samples in the same order"
            return describe("overlap", evidence, place, rank=1, epoch=epoch + 1, step=ours[0][epoch].first_step)
    return None


def _repeated(theirs: list[Pass], name: Name) -> Finding | None:
    training, (first, *others) = theirs[0], Counter(map(name, theirs[0].samples)).values()
    if training.sampler != _STREAM or first != training.workers or first < 2 or {first} != {first, *others}:
        return None
    evidence = f"in an epoch of one process each sample occurs {first} times, once from each loader worker"
    return describe("repeated-samples", evidence, training.sampler_place or training.loader, epoch=1)


def _where(training: Pass, root: Path) -> Place:
    if training.is_skipped:
        return training.place
    of_loader = training.key != "by hand"
    if training.sampler_place:
        return iter_line(root, training.sampler_place)
    return part_line(root, training.loader, of_loader=of_loader)


def _missing(theirs: list[Pass], ours: list[list[Pass]], name: Name, root: Path) -> Finding | None:
    for epoch in range(min(len(theirs), *map(len, ours))):
        if not all(own[epoch].is_whole for own in [theirs, *ours]):
            continue
        alone = len({name(sample) for sample in theirs[epoch].samples})
        union = len({name(sample) for own in ours for sample in own[epoch].samples})
        if alone - union > max(_allowed(ours), 0.02 * alone):
            training = ours[0][epoch]
            place = _where(training, root)
            if not training.is_skipped and (training.key == "by hand" or training.is_broken):
                work = work_line(root, training.place)
                place = place if work == training.place and not training.is_broken else work
            evidence = f"in epoch {epoch + 1} the ranks train on {union} different samples, one process on {alone}"
            return describe("missing-samples", evidence, place, epoch=epoch + 1, step=training.first_step)
    return None


def _same_order(
    theirs: list[Pass], ours: list[list[Pass]], name: Name, ranks: list[Rank], root: Path
) -> Finding | None:
    if len(theirs) < 2 or min(map(len, ours)) < 2:
        return None
    training = ours[0][1]
    # A DistributedSampler without set_epoch repeats its order with one process too.
    is_meant = _is_constant(theirs, name) and not training.shuffles
    if is_meant or not all(_is_constant(own, name) for own in ours):
        return None
    set_epoch = ranks[0].first("set_epoch")
    place = set_epoch["place"] if set_epoch else epoch_loop(root, training.place)
    is_same = _is_constant(theirs, name)
    why = "so it is with one process, since the sampler reshuffles only after set_epoch"
    why = why if is_same else "with one process the order changes"
    evidence = f"each of {len(ours[0])} epochs has the same order of samples; {why}"
    finding = describe("same-order", evidence, place, epoch=2, step=training.first_step)
    return replace(finding, level=NOTE) if is_same else finding


def _is_constant(passes: list[Pass], name: Name) -> bool:
    orders = [[name(sample) for sample in each.samples] for each in passes if each.is_whole]
    shortest = min(map(len, orders), default=0)
    return len(orders) > 1 and shortest > 1 and all(order[:shortest] == orders[0][:shortest] for order in orders)


def _leak(alone: Rank, ranks: list[Rank]) -> Finding | None:
    """Return a finding if the ranks evaluate samples that a rank trains on, but one process keeps both sets apart."""
    before, after = _leaked([alone]), _leaked(ranks)
    if after is None or before is None or after[0] <= max(2, 0.02 * after[1]):
        return None
    if before[0] / before[1] > 0.5 * after[0] / after[1]:
        return None  # one process evaluates its training samples too
    own = max((_leaked([rank]) or (0, 1))[0] for rank in ranks)
    places = (evaluation.place for rank in ranks for evaluation in rank.evaluations)
    place = differing_draw(ranks) or next(places, [])
    evidence = (
        f"{after[0]} of the {after[1]} evaluated samples are training samples of some rank, {own} of the same rank; "
        f"with one process {before[0]}"
    )
    return describe("leak", evidence, place, epoch=1)


def _leaked(ranks: list[Rank]) -> tuple[int, int] | None:
    """Return the number of evaluated samples that are also training samples, and the number of all evaluated samples.

    Returns None if unknown.
    """
    trained = [(own.base, sample) for rank in ranks for own in rank.trainings for sample in own.samples]
    evaluated = [(each.of_loader, each.samples) for rank in ranks for each in rank.evaluations]
    tested = [(loader.base if loader else -1, sample) for loader, samples in evaluated for sample in samples]
    if not trained or not tested:
        return None
    bases = {base for base, _ in trained} & {base for base, _ in tested} - {-1}
    if bases and all(sample[0] is not None for _, sample in tested):
        learnt = {(base, sample[0]) for base, sample in trained}
        seen = {(base, sample[0]) for base, sample in tested}
    else:
        learnt = {(0, sample[1]) for _, sample in trained if sample[1] is not None}
        seen = {(0, sample[1]) for _, sample in tested if sample[1] is not None}
    return (len(learnt & seen), len(seen)) if seen else None


def differing_draw(ranks: list[Rank]) -> Place | None:
    """Return the first place where random draws differ between ranks or runs. Returns None if all draws agree."""
    draws = [[event for event in rank.of("draw") if event["name"] != "randperm"] for rank in ranks]
    for same in zip(*draws, strict=False):
        if len({event["number"] for event in same}) > 1 and len({str(event["place"][0]) for event in same}) == 1:
            place: Place = same[0]["place"]
            return place
    return None
