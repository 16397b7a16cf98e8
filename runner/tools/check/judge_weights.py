"""Are the weights the same on every rank, and the gradients those of one process with the batches of all?"""

import math
from pathlib import Path

from runner.tools.check.finding import Verdict, found
from runner.tools.check.judge_samples import per_step
from runner.tools.check.observation import Event, Place, Rank
from runner.tools.check.source_lines import divides, loss_line

_EXACT = 1e-4
"""Relative difference of gradients in single precision on a CPU that another order of summation does not reach."""
_HALF = 3e-2
_ORDERS = 30
"""So many times the difference that another order of the ranks gives by itself is no finding."""


def judge_weights(ranks: list[Rank], verdict: Verdict) -> bool:
    """Compare the weights of the ranks at each step; return whether they start equal and stay so."""
    model = ranks[0].first("model")
    place = model["place"] if model else []
    if any(event["sharded"] for rank in ranks for event in rank.of("model")):
        verdict.facts.append("weights: each rank holds a shard of them")
        return True
    if len({event["shapes"] for rank in ranks for event in [rank.first("step")] if event}) > 1:
        verdict.unknown.append("weights: the ranks train different parameters, parts of a model perhaps")
        return False
    shared = [key for key in ranks[0].steps if all(key in rank.steps for rank in ranks)]
    values = [{rank.steps[key]["weights"] for rank in ranks} for key in shared]
    pairs = [(key, found_) for key, found_ in zip(shared, values, strict=True) if None not in found_]
    last = {event["weights"] for rank in ranks for event in rank.of("weights")}
    if not pairs:
        verdict.unknown.append("weights: no optimizer made a step on every rank")
        return False
    gradients = [
        key
        for key in shared
        if len({rank.steps[key]["gradients"] for rank in ranks}) > 1 and ranks[0].steps[key]["gradients"] is not None
    ]
    first = {key[1]: None for key in shared}
    starts = [found_ for key, found_ in pairs if key[1] in first and first.pop(key[1]) is None]
    differs_at_start = any(len(found_) > 1 for found_ in starts)
    apart = next((key for key, found_ in pairs if len(found_) > 1), None)
    own = bool(gradients) and gradients[0] == shared[0]
    is_averaged_later = differs_at_start and len(last) == 1
    if own and not is_averaged_later and (apart is not None or len(last) > 1):
        if apart is not None and len(last) == 1 and not differs_at_start:
            verdict.unknown.append(
                "weights: they differ between steps and are equal at the end, as if averaged themselves"
            )
            return False
        step = shared[0][0]
        verdict.findings.append(
            found("not-averaged", _why_not_averaged(ranks, step), _averaging_place(ranks, place), rank=1, step=step)
        )
        return False
    if own and not differs_at_start:
        verdict.unknown.append(
            "weights: each rank takes a gradient of its own, and they are equal again before the next step, as if averaged "
            "themselves; whether that is the training of one process depends on the optimizer"
        )
        return False
    if differs_at_start:
        verdict.findings.append(
            found("initial-weights", "before the first step the weights of the ranks differ", place, rank=1, step=0)
        )
        return False
    if apart is not None or len(last) > 1:
        step = apart[0] if apart else shared[-1][0] + 1
        verdict.findings.append(
            found(
                "not-averaged",
                f"before step {step} the weights of the ranks differ, after equal ones at the start",
                _averaging_place(ranks, place),
                rank=1,
                step=step,
            )
        )
        return False
    verdict.facts.append(f"weights: equal on every rank, bit by bit, at {len(pairs)} of {len(shared)} steps")
    return True


def _why_not_averaged(ranks: list[Rank], step: int) -> str:
    wraps = any(rank.first("ddp") for rank in ranks)
    averages = any(event["gradient"] for rank in ranks for event in rank.of("collective"))
    how = "nothing reduces them"
    if wraps and _unwrapped(ranks):
        how = "this model is not wrapped"
    elif wraps:
        bare = any(event["bare"] for rank in ranks for event in rank.of("forward") if event["train"])
        how = "the forward pass goes to the module inside of DistributedDataParallel" if bare else "despite the wrapper"
    elif averages:
        how = "a collective reduces only some of them, or another copy"
    return f"at step {step} the optimizer takes another gradient on each rank, and the weights drift apart: {how}"


def _unwrapped(ranks: list[Rank]) -> Event | None:
    """Return a model that is trained as it is, without DistributedDataParallel around it or its parent."""
    return next((event for event in ranks[0].of("model") if event["bare"]), None)


def _averaging_place(ranks: list[Rank], model: Place) -> Place:
    if any(rank.first("ddp") for rank in ranks):
        if unwrapped := _unwrapped(ranks):
            place: Place = unwrapped["place"]
            return place
        bare = next((event for event in ranks[0].of("forward") if event["bare"] and event["train"]), None)
        backward = ranks[0].first("backward")
        return bare["place"] if bare else backward["place"] if backward else model
    reduces = next((event for event in ranks[0].of("collective") if event["gradient"]), None)
    return reduces["place"] if reduces else model


def judge_gradients(
    ranks: list[Rank], alone: Rank, replay: Rank | None, order: Rank | None, failure: str, root: Path, verdict: Verdict
) -> None:
    """Compare the gradients that the ranks used with those of one process that has all their batches."""
    if any(event["sharded"] for rank in ranks for event in rank.of("model")):
        _by_losses(ranks, replay, verdict)
        return
    compared = {event["step"]: event for event in replay.of("compared")} if replay else {}
    if replay is None or not compared or compared.get(0, {}).get("relative") is None:
        fault = next((event["fault"] for event in replay.of("replay")), "") if replay else ""
        verdict.unknown.append(
            f"gradients: the batches of the ranks could not be given to one process: {fault or failure}"
        )
        return
    if fault := next((event["fault"] for event in replay.of("replay")), ""):
        verdict.unknown.append(f"gradients: {fault}")
        return
    event = compared[0]
    noise = next((e["relative"] for rank in (replay, order) if rank for e in rank.of("order")), 0.0) or 0.0
    half = any(e["half"] for e in ranks[0].of("forward"))
    # Rounding points anywhere; a difference that other weights of the ranks explain is theirs, if bfloat16's 2**-8 is small.
    explained = event.get("rest") is not None and event["relative"] > 2 * event["rest"]
    limit = max((_HALF / 3 if explained else _HALF) if half else _EXACT, _ORDERS * noise)
    scale, cosine = event["scale"], event["cosine"]
    if noise > _HALF and event["relative"] > _EXACT:
        verdict.unknown.append(
            f"gradients: the order of the ranks' batches changes that of one process by {noise:.1%}, so they cannot be "
            "compared: what the loss compares with does not come with the batches, for example"
        )
        return
    verdict.facts.append(
        f"first gradient against one process with the batches of all ranks: relative difference {event['relative']:.1e}, "
        f"scale {scale:.4f}; another order of the ranks gives {noise:.1e} by itself"
    )
    for path in replay.of("path"):
        verdict.facts.append(
            f"after {path['steps']} steps the weights differ by {path['relative']:.1e} of the way they went ({path['ulps']:.0f} ulps at most)"
        )
    if event["relative"] <= limit:
        return
    drawn = _is_drawn(replay)
    batch_norm = any(e["batch_norm"] for e in ranks[0].of("model"))
    backward = ranks[0].first("backward")
    place = loss_line(root, backward["place"]) if backward else []
    several = len(ranks)
    if (
        cosine is not None
        and cosine > 1 - max(limit, 1e-3 if not drawn else 0.1) ** 1
        and abs(scale - 1) > max(limit, 0.2 if drawn or batch_norm else 0)
    ):
        _scaled(event, ranks, alone, place, root, several, verdict)
        return
    weights, rest = event.get("weights"), event.get("rest")
    if batch_norm:
        return
    if drawn:
        verdict.unknown.append("gradients: the model draws random numbers that cannot be taken away, so they differ")
        return
    if weights and rest is not None and rest < 1e-3 + limit:
        used = event.get("used_weights") or [1 / several] * several
        shown = " and ".join(f"{value / sum(weights):.4f}" for value in weights)
        have = " and ".join(f"{value / (sum(used) or 1):.4f}" for value in used)
        verdict.findings.append(
            found(
                "uneven-weights",
                f"at step 0 the gradients of the ranks would have to weigh {shown}, as one process with their batches "
                f"weighs them, and weigh {have}: the gradient is {event['relative']:.1%} off",
                place,
                rank=0,
                step=0,
            )
        )
        return
    verdict.unknown.append(
        f"gradients: that of one process with the batches of all ranks is {event['relative']:.1%} off and no sum of theirs: "
        "the loss depends on which samples share a batch"
    )


def _scaled(
    event: Event, ranks: list[Rank], alone: Rank, place: Place, root: Path, several: int, verdict: Verdict
) -> None:
    scale = event["scale"]
    passes = [rank.trainings for rank in (ranks[0], alone)]
    same_batch = not all(passes) or per_step(ranks[0], passes[0]) == per_step(alone, passes[1])
    if math.isclose(scale, 1 / several, rel_tol=0.02) and same_batch and divides(root, place):
        verdict.unknown.append(
            f"gradients: they are {scale:.4f} times those of one process with the batches of all ranks; whether that is "
            "meant cannot be seen, as the loss is divided by a number of the program"
        )
        return
    reduces = next((e for e in ranks[0].of("collective") if e["gradient"]), None)
    evidence = (
        f"at step 0 the gradient is {scale:.4f} times that of one process with the batches of all {several} ranks"
    )
    used = event.get("used_weights")
    if used and reduces:
        evidence += f": the ranks' gradients are summed with weights {', '.join(f'{value:.2f}' for value in used)}"
        if not math.isclose(sum(used), 1, rel_tol=0.05):
            place = reduces["place"]
    verdict.findings.append(found("scaled-gradients", evidence, place, rank=0, step=0))


def _is_drawn(replay: Rank) -> bool:
    return any(True for _ in replay.of("noise"))


def _by_losses(ranks: list[Rank], replay: Rank | None, verdict: Verdict) -> None:
    """Compare the losses of the first steps, where the gradients lie in shards."""
    if replay is None:
        verdict.unknown.append("gradients: they lie in shards, and one process could not train on the ranks' batches")
        return
    ours = [_losses(rank) for rank in ranks]
    theirs = _losses(replay)
    steps = min(len(theirs), *map(len, ours))
    if steps < 2:
        verdict.unknown.append("gradients: they lie in shards, and fewer than two losses were seen")
        return
    means = [sum(losses[at] for losses in ours) / len(ours) for at in range(steps)]
    worst = max(abs(mean - loss) / max(abs(loss), 1e-12) for mean, loss in zip(means, theirs, strict=False))
    verdict.facts.append(f"losses of {steps} steps against one process with all batches: {worst:.1e} off at most")
    if worst > 1e-3:
        verdict.unknown.append(
            f"gradients: they lie in shards, and the losses are {worst:.1%} off those of one process"
        )


def _losses(rank: Rank) -> list[float]:
    return [event["value"] for event in rank.of("backward") if event["value"] is not None]


def judge_randomness(alone: Rank, ranks: list[Rank], replay: Rank | None, verdict: Verdict) -> None:
    """Note noise that is equal on all ranks, buffers that differ, and runs that cannot be repeated."""
    states = [{event["step"]: event["state"] for event in rank.of("noise")} for rank in ranks]
    shared = [step for step in states[0] if all(step in other for other in states)]
    seed = ranks[0].first("seed")
    if len(ranks) > 1 and shared and len({other[shared[0]] for other in states}) == 1:
        verdict.findings.append(
            found(
                "same-noise",
                "dropout and other noise draw the same numbers on every rank",
                seed["place"] if seed else [],
            )
        )
    model = ranks[0].first("model")
    if model and model["batch_norm"] and len({e["number"] for rank in ranks for e in rank.of("buffers")}) > 1:
        wrapper = ranks[0].first("ddp")
        evidence = "BatchNorm takes its statistics from the samples of each rank; they differ at the end"
        place = wrapper["place"] if wrapper else model["place"]
        verdict.findings.append(found("unsynchronised-buffers", evidence, place))
    first, other = alone.first("step"), ranks[0].first("step")
    loaded = replay.first("loaded") if replay else None
    drawn = _first_draw(alone, ranks[0])
    if drawn is not None:
        evidence = "with another seed of the process something else is drawn: the program sets none before"
        verdict.findings.append(found("not-repeatable", evidence, drawn))
    elif first and other and loaded and first["weights"] != other["weights"] and not loaded["changed"]:
        place = model["place"] if model else []
        evidence = "with another seed of the process the weights start elsewhere: the program sets none"
        verdict.findings.append(found("not-repeatable", evidence, place))


def _first_draw(alone: Rank, other: Rank) -> Place | None:
    draws = [[event for event in rank.of("draw") if event["name"] != "torch.randperm"] for rank in (alone, other)]
    for one, two in zip(*draws, strict=False):
        if one["place"][0] == two["place"][0] and one["number"] != two["number"]:
            found_: Place = one["place"]
            return found_
    return None
