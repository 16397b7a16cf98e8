"""Judge evaluations: each figure, such as an accuracy, must cover the whole set and count each sample once."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

from runner.tools.check.mistakes import Finding, Verdict, describe
from runner.tools.check.observation import WHOLE_PASSES, Evaluation, Event, Rank
from runner.tools.check.source_lines import figure_line

_OF_A_PART = re.compile(r"\b(rank|shard|local|process|worker|gpu|proc)\b", re.IGNORECASE)
"""Words that mark a printed figure as one rank's: `rank 1: accuracy 0.9`."""
_NO_FIGURE = re.compile(
    r"\b(?:epoch|step|iter\w{0,8}|batch\w{0,8}|seed|lr)\W{0,3}\d[\d./e-]{0,20}"
    r"|[^\s]{0,200}\.(?:pth?|ckpt|safetensors|npy|npz|json|csv|txt)\b"
    r"|\d[\d.,]{0,20}\s?(?:s|secs?|seconds|ms|min|minutes|h|it/s|samples/s)\b",
    re.IGNORECASE,
)
"""Numbers that are no figure of an evaluation: `epoch 3 took 2.1 s`, `saved model_3.pt`."""
_WHOLE_NUMBER = re.compile(r"(?<![\d.])\d+(?![\d.])")
_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[-+]?\d+)?")


def judge_evaluation(alone: Rank, ranks: list[Rank], root: Path, verdict: Verdict) -> None:
    """Compare the ranks' evaluations with those of one process, and add the worst finding to the verdict."""
    judged = (_judge(whole, parts, number, root) for number, (whole, parts) in enumerate(_pairs(alone, ranks), 1))
    findings = [finding for finding in judged if finding]
    verdict.findings += sorted(findings, key=lambda finding: finding.kind != "partial-evaluation")[:1]


def _pairs(alone: Rank, ranks: list[Rank]) -> list[tuple[Evaluation, list[Evaluation]]]:
    pairs = []
    keys = [*dict.fromkeys(evaluation.key for evaluation in alone.evaluations)]
    joined = [_with_tails(rank.evaluations, keys) for rank in ranks]
    for key in keys:
        theirs = [evaluation for evaluation in alone.evaluations if evaluation.key == key][:WHOLE_PASSES]
        ours = [[e for e in own if e.key == key][:WHOLE_PASSES] for own in joined]
        for at, whole in enumerate(theirs):
            parts = [own[at] for own in ours if at < len(own)]
            pairs += [(whole, parts)] if parts else []
    return pairs


def _with_tails(evaluations: list[Evaluation], keys: list[str]) -> list[Evaluation]:
    """Merge an evaluation, for example of a remainder, into the one before if one process does not use its loader.

    If every rank counts the remainder after the sum over ranks, the counts of the remainder go to `once`.
    """
    joined: list[Evaluation] = []
    for each in evaluations:
        if not joined or each.key in keys or not each.goes_on(joined[-1]):
            joined.append(each)
            continue
        last = joined[-1]
        is_once = last.collectives and not each.collectives
        joined[-1] = replace(
            last,
            samples=last.samples + each.samples,
            counted=last.counted + (Counter() if is_once else each.counted),
            once=last.once + (each.counted if is_once else Counter()),
            collectives=last.collectives + each.collectives,
            prints=last.prints + each.prints,
        )
    return joined


def _judge(whole: Evaluation, parts: list[Evaluation], number: int, root: Path) -> Finding | None:  # noqa: PLR0911 - one for each kind
    size = len(whole.samples)
    if not size or all(len(part.samples) >= size for part in parts):
        return None  # every rank that evaluates has the whole set
    joined = [event for part in parts for event in part.collectives]
    if not joined:
        return _printed_alone(size, parts, number, root)
    if not all(part.is_whole for part in [whole, *parts]):
        return None
    loader = parts[0].of_loader
    place = (loader.sampler_place or loader.loader) if loader else parts[0].place
    distinct = _distinct(whole, parts)
    if distinct is not None and distinct < size:
        evidence = f"the ranks evaluate {distinct} different samples, one process {size}"
        return describe("partial-evaluation", evidence, place, epoch=number)
    counts = [part.rows for part in parts if part.rows is not None]
    if whole.rows is None or not counts:
        return None
    # A rank that counts more than it evaluated has gathered the other ranks' samples.
    is_gathered = max(counts) > max(len(part.samples) for part in parts)
    gathers = [event for event in joined if "gather" in event["name"] and event["place"]]
    if not is_gathered and (gathers or len(counts) < len(parts)):
        return None  # padding may have been dropped after the gather
    counted = max(counts) if is_gathered else sum(counts) + max(max(part.once.values(), default=0) for part in parts)
    values = {value for event in joined for value in event["after"] or ()}
    # If the right count is summed, the program masks padding later.
    trimmed = whole.rows in values and counted not in values
    if counted <= whole.rows or sum(len(part.samples) for part in parts) <= size or trimmed:
        return None
    if gathers and not (loader and loader.sampler_place):
        place = gathers[0]["place"]  # the program did not make the sampler
    evidence = f"the figure counts {counted} samples, one process {whole.rows}: {counted - whole.rows} of them twice"
    return describe("padded-evaluation", evidence, place, epoch=number)


def _printed_alone(size: int, parts: list[Evaluation], number: int, root: Path) -> Finding | None:
    if _are_numbered([part.prints for part in parts]):
        return None
    for rank, part in enumerate(parts):
        if part.reads_back:
            continue
        figures = (event for event in part.prints if re.search(r"\d", _NO_FIGURE.sub("", event["text"])))
        said = next((event for event in figures if not _OF_A_PART.search(event["text"])), None)
        if said and len(part.samples) < size:
            text = said["text"].strip()[:80]
            evidence = f"rank {rank} prints a figure of its {len(part.samples)} of {size} samples: {text}"
            loader = part.of_loader if len(parts) == 1 else None
            place = (loader.sampler_place or loader.loader) if loader else figure_line(root, part.place, said["place"])
            return describe("partial-evaluation", evidence, place, rank=rank, epoch=number)
    return None


def _are_numbered(prints: list[list[Event]]) -> bool:
    for said_by_all in zip(*prints, strict=False):
        same = zip(*(_WHOLE_NUMBER.findall(event["text"]) for event in said_by_all), strict=False)
        if len(prints) > 1 and any(list(map(int, each)) == list(range(len(prints))) for each in same):
            return True
    return False


def _distinct(whole: Evaluation, parts: list[Evaluation]) -> int | None:
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
    """Add a note if a rank prints its own loss although the ranks' losses differ."""
    if _are_numbered([list(rank.of("print")) for rank in ranks]):
        return
    losses = [_losses(rank) for rank in ranks]
    for rank, own in zip(ranks, losses, strict=True):
        count = 0
        for event in rank.events:
            count += event["kind"] == "backward" and event["value"] is not None
            others = [of_rank[count - 1] for of_rank in losses if 0 < count <= len(of_rank)]
            if event["kind"] != "print" or len(others) < len(ranks) or _OF_A_PART.search(event["text"]):
                continue
            for value, *each in zip(own[count - 1], *others, strict=True):
                mean = sum(each) / len(each)
                for text in _NUMBER.findall(event["text"]):
                    digits = len(text.partition(".")[2].partition("e")[0])
                    if digits >= 2 and abs(float(text) - value) <= 0.51 * 10**-digits < abs(value - mean) / 10:
                        evidence = f"rank {rank.rank} prints {text}, its own loss; the mean over ranks is {mean:.6g}"
                        verdict.add("wrong-loss-print", evidence, event["place"], rank=rank.rank)
                        return


def _losses(rank: Rank) -> list[tuple[float, float]]:
    losses, values = list[tuple[float, float]](), list[float]()
    for event in rank.events:
        if event["kind"] == "pass":
            values = []
        elif event["kind"] == "backward" and event["value"] is not None:
            values.append(event["value"])
            losses.append((values[-1], sum(values) / len(values)))
    return losses
