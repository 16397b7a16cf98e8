"""Do the figures that are printed stand for the whole set, with each sample counted once?"""

import re
from collections import Counter

from runner.tools.check.finding import Finding, Verdict, found
from runner.tools.check.observation import WHOLE_PASSES, Evaluation, Rank

_OF_A_PART = re.compile(r"\b(rank|shard|local|process|worker|gpu|proc)\b", re.IGNORECASE)
"""Words by which a line says that its figure is that of one rank: `rank 1: accuracy 0.9`."""
_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[-+]?\d+)?")
"""A figure with a point: `0.9312`, `1.2e-05`."""


def judge_evaluation(alone: Rank, ranks: list[Rank], verdict: Verdict) -> None:
    """Compare the evaluations of the ranks with those of one process."""
    for kind in ("partial-evaluation", "padded-evaluation"):
        for number, (whole, parts) in enumerate(_pairs(alone, ranks)):
            finding = _judge(whole, parts, number + 1)
            if finding and finding.kind == kind:
                verdict.findings.append(finding)
                return


def _pairs(alone: Rank, ranks: list[Rank]) -> list[tuple[Evaluation, list[Evaluation]]]:
    """Pair the evaluations of one process with those of the ranks: the first of the same loader, the second, ..."""
    pairs = []
    keys = dict.fromkeys(evaluation.key for evaluation in alone.evaluations)
    for key in keys:
        theirs = [evaluation for evaluation in alone.evaluations if evaluation.key == key][:WHOLE_PASSES]
        ours = [[e for e in rank.evaluations if e.key == key][:WHOLE_PASSES] for rank in ranks]
        for at, whole in enumerate(theirs):
            parts = [own[at] for own in ours if at < len(own)]
            if parts:
                pairs.append((whole, parts))
    return pairs


def _judge(whole: Evaluation, parts: list[Evaluation], number: int) -> Finding | None:
    size = len(whole.samples)
    if not size or all(len(part.samples) >= size for part in parts):
        return None
    distinct = _distinct(whole, parts)
    total = sum(len(part.samples) for part in parts)
    reduced = [event for part in parts for event in part.collectives]
    if not reduced:
        for rank, part in enumerate(parts):
            said = next((event for event in part.prints if not _OF_A_PART.search(event["text"])), None)
            if said and len(part.samples) < size:
                evidence = (
                    f"rank {rank} prints a figure of its own {len(part.samples)} of {size} samples, and nothing "
                    f"joins it with the others': {said['text'].strip()[:80]}"
                )
                return found("partial-evaluation", evidence, said["place"], rank=rank, epoch=number)
        return None
    if not all(part.is_whole for part in [whole, *parts]):
        return None
    if distinct is not None and distinct < size:
        loader = parts[0].of_loader
        place = (loader.sampler_place or loader.loader) if loader else parts[0].place
        evidence = f"the ranks evaluate {distinct} different samples, one process {size}"
        return found("partial-evaluation", evidence, place, epoch=number)
    counted = [part.rows for part in parts]
    if None in counted or whole.rows is None:
        return None
    counts = [count or 0 for count in counted]
    # A rank that counts more than it evaluated has gathered the others' samples, and its figure is that of all.
    is_gathered = any(count > len(part.samples) for count, part in zip(counts, parts, strict=True))
    joined = max(counts) if is_gathered else sum(counts)
    gathers = [event for event in reduced if "gather" in event["name"] and event["place"]]
    if gathers and not is_gathered:  # what was repeated may have been cut off behind the gathering
        return None
    values = {value for event in reduced for value in event["after"] or ()}
    if joined <= whole.rows or total <= size or (whole.rows in values and joined not in values):
        return None
    loader = parts[0].of_loader
    place = (loader.sampler_place or loader.loader) if loader else parts[0].place
    place = gathers[0]["place"] if gathers else place
    evidence = f"the figure counts {joined} samples, one process {whole.rows}: {joined - whole.rows} of them twice"
    return found("padded-evaluation", evidence, place, epoch=number)


def _distinct(whole: Evaluation, parts: list[Evaluation]) -> int | None:
    """Return how many different samples the ranks evaluated together; None if they cannot be told apart."""
    loaders = [part.of_loader for part in [whole, *parts]]
    sizes = {loader.size for loader in loaders if loader}
    samples = [sample for part in parts for sample in part.samples]
    if all(loaders) and len(sizes) == 1 and all(index is not None for index, _ in samples):
        return len({index for index, _ in samples})
    if any(content is None for _, content in samples):
        return None
    natural = Counter(content for _, content in whole.samples)
    joined = Counter(content for _, content in samples)
    return sum(min(number, natural[content] or number) for content, number in joined.items())


def judge_prints(ranks: list[Rank], verdict: Verdict) -> None:
    """Note a printed loss that is that of one rank's samples, where the ranks' losses differ."""
    means = [_running(rank) for rank in ranks]
    for rank in ranks:
        for event in rank.of("print"):
            at = event["at"] if "at" in event else None
            if at is None:
                continue
            own = means[rank.rank].get(at) if rank.rank < len(means) else None
            others = [other[at] for other in means if at in other]
            if not own or len(others) < len(ranks):
                continue
            for position, value in enumerate(own):
                mean = sum(other[position] for other in others) / len(others)
                for text in _NUMBER.findall(event["text"]):
                    digits = len(text.partition(".")[2].partition("e")[0])
                    near = 0.51 * 10**-digits
                    if digits >= 2 and abs(float(text) - value) <= near < abs(value - mean) / 2:
                        evidence = f"rank {rank.rank} prints {text}, its own loss; the mean over the ranks is {mean:.{digits}f}"
                        verdict.findings.append(found("wrong-loss-print", evidence, event["place"], rank=rank.rank))
                        return


def _running(rank: Rank) -> dict[int, tuple[float, float]]:
    """Return (last loss, mean loss of the pass) before each print, by the number of losses so far; numbers the prints."""
    found_: dict[int, tuple[float, float]] = {}
    count, last, values = 0, None, []
    for event in rank.events:
        if event["kind"] == "pass" or (event["kind"] == "forward" and not event["train"]):
            values = values if event["kind"] == "forward" else []
        elif event["kind"] == "backward" and event["value"] is not None:
            count, last = count + 1, event["value"]
            values.append(last)
        elif event["kind"] == "print" and last is not None and values:
            event["at"] = count
            found_[count] = (last, sum(values) / len(values))
    return found_
