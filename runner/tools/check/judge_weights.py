"""Judge weights and gradients: they must equal those of one process with the batches of all ranks."""

import math
from operator import itemgetter
from pathlib import Path

from runner.tools.check.judge_samples import differing_draw, per_step
from runner.tools.check.mistakes import Verdict
from runner.tools.check.observation import Event, Place, Rank
from runner.tools.check.source_lines import calls_backward, divides, loss_line, rate_line

_EXACT = 1e-4
"""Relative tolerance for single-precision gradients. On a CPU, reordering sums changes gradients by less."""
_HALF = 3e-2
_SHARE = 5e-4
"""Tolerance within which a rank's share of the gradient is right."""
_RATE_STEPS = 4
FEW_ELEMENTS = 8
"""Tensors with at most this many elements may be counts or losses."""
_ORDERS = 30
"""Tolerance as a multiple of the difference that reordering the ranks causes."""


def judge_weights(ranks: list[Rank], verdict: Verdict) -> bool:
    """Compare the ranks' weights at each step; return whether they start and stay equal."""
    trained = next((event for event in ranks[0].of("model") if event["trained"]), ranks[0].first("model"))
    optimizer = ranks[0].first("optimizer")
    place = _in_function(trained["place"], optimizer["place"] if optimizer else []) if trained else []
    if any(event["sharded"] for rank in ranks for event in rank.of("model")):
        verdict.facts.append("weights: each rank holds a shard")
        return True
    if len({event["shapes"] for rank in ranks for event in [rank.first("step")] if event}) > 1:
        verdict.unknown.append("weights: the ranks train different parameters, perhaps parts of a model")
        return False
    shared = [key for key in ranks[0].steps if all(key in rank.steps for rank in ranks)]
    if not shared:
        verdict.unknown.append("weights: no optimizer made a step on every rank")
        return False
    weights = {key: {rank.steps[key]["weights"] for rank in ranks} for key in shared}
    differing = [key for key, values in weights.items() if len(values) > 1 and None not in values]  # None: not hashed
    apart = next(iter(differing), None)
    end_apart = len({event["weights"] for rank in ranks for event in rank.of("weights")}) > 1
    gradients_apart = len({rank.steps[shared[0]]["gradients"] for rank in ranks}) > 1
    if apart is None and not end_apart:
        if gradients_apart:
            why = "each rank applies its own gradient, yet the weights are equal before the next step"
            verdict.unknown.append(f"weights: {why}, as if weights were averaged")
            return False
        seen = verdict.compared["weights"] = sum(None not in values for values in weights.values())
        verdict.facts.append(f"weights: equal on every rank, bit for bit, at {seen} of {len(shared)} steps")
        return True
    firsts = {optimizer: key for key in reversed(shared) for _, optimizer in [key]}
    start_apart = any(key in differing for key in firsts.values())
    behind = [key for key in shared[shared.index(apart) :] if key[1] == apart[1]] if apart else []
    known = (weights[shared[0]], {None})  # a program may restart from its initial weights
    meets_again = any(len(weights[key]) == 1 and weights[key] not in known for key in behind)
    if not start_apart and (meets_again or not end_apart):
        verdict.unknown.append("weights: they differ between ranks and become equal again later: are they averaged?")
    elif start_apart and not (gradients_apart and end_apart):
        evidence = "before the first step the weights of the ranks differ"
        verdict.add("initial-weights", evidence, place, rank=1, step=0)
    else:
        step = shared[0][0] if gradients_apart else apart[0] if apart else shared[-1][0] + 1
        how, place = _averaging(ranks[0], place)
        evidence = (
            f"at step {step} the optimizer takes a different gradient on each rank, and weights drift apart: {how}"
        )
        verdict.add("not-averaged", evidence, place, rank=1, step=step)
    return False


def _title(event: Event) -> str:
    return ":".join(map(str, event["place"][0][:2])) if event["place"] else "a library"


def _averaging(rank: Rank, model: Place) -> tuple[str, Place]:
    if wrapper := rank.first("ddp"):
        bare = next((event for event in rank.of("forward") if event["bare"] and event["train"]), None)
        if bare:
            return "the forward pass calls the module inside DistributedDataParallel", bare["place"]
        other = next((event for event in rank.of("model") if event["trained"] and not event["wrapped"]), None)
        if other:
            return "DistributedDataParallel does not wrap every model", _in_function(other["place"], wrapper["place"])
        hook = rank.first("comm_hook")
        cause = hook or rank.first("backward")
        by = f", by {hook['name']}" if hook else ""
        return f"despite the wrapper{by}", cause["place"] if cause else model
    before, behind = _around_first_step(rank)
    if before:
        return "a collective reduces only some gradients, or copies", before[-1]["place"]
    if behind:
        step = rank.first("step")
        return "gradients are reduced after the step", _in_function(behind[0]["place"], step["place"] if step else [])
    return "nothing reduces gradients", model


def _around_first_step(rank: Rank) -> tuple[list[Event], list[Event]]:
    """Return two lists of collectives that may reduce gradients: before and after the first optimizer step.

    If the step itself computes gradients, as LBFGS does, all these collectives are in the second list.
    """
    kinds = [event["kind"] for event in rank.events]
    step = kinds.index("step")
    following = kinds.index("step", step + 1) if "step" in kinds[step + 1 :] else len(kinds)
    if "backward" not in kinds[:step]:
        return [], _reductions(rank.events[step:following])
    after = kinds.index("backward", step) if "backward" in kinds[step:] else len(kinds)
    return _reductions(rank.events[kinds.index("backward") : step]), _reductions(rank.events[step:after])


def _reductions(events: list[Event]) -> list[Event]:
    joins = [event for event in events if event["kind"] == "collective" and "broadcast" not in event["name"]]
    return [event for event in joins if event["gradient"] or event["elements"] > FEW_ELEMENTS]


def _in_function(place: Place, other: Place) -> Place:
    functions = {frame[2] for frame in other}
    return next(([frame] for frame in place if frame[2] in functions), place)


def judge_gradients(  # noqa: C901 - a branch for each reason why they differ
    ranks: list[Rank], alone: Rank, replay: Rank | None, order: Rank | None, failure: str, root: Path, verdict: Verdict
) -> None:
    """Compare the ranks' gradients with those of one process that trains on all their batches."""
    if any(event["sharded"] for rank in ranks for event in rank.of("model")):
        _by_losses(ranks, replay, verdict)
        return
    until = min((step for rank in (ranks[0], replay) if rank for step in rank.restarts), default=None)
    seen = [event for event in replay.of("compared") if event["relative"] is not None] if replay else []
    compared = [event for event in seen if until is None or event["step"] < until]
    fault = next((event["fault"] for event in replay.of("replay")), "") if replay else ""
    if replay is None or not compared or fault:
        why = fault or failure or "its gradients are zero"
        verdict.unknown.append(f"gradients: one process could not train on the ranks' batches: {why}")
        return
    noise = next((e["relative"] for rank in (replay, order) if rank for e in rank.of("order")), 0.0) or 0.0
    if noise > _HALF and compared[0]["relative"] > _EXACT:
        why = "gradients change with the order of the ranks, as the loss's targets are not in the batch"
        verdict.unknown.append(f"gradients: one process could not train on the ranks' batches: {why}")
        return
    verdict.compared["gradients"] = len(compared)
    verdict.off, verdict.order = [event["relative"] for event in compared if event["relative"] < 1e6], noise
    limit = max(_rounding(ranks[0], compared[0]), _ORDERS * noise)
    verdict.facts.append(
        f"first gradient against one process with all batches: {compared[0]['relative']:.1e} off, scale "
        f"{compared[0]['scale']:.4f}; reordering the ranks alone gives {noise:.1e}"
    )
    for path in replay.of("path") if until is None else ():
        off = f"off by {path['relative']:.1e} of the distance moved"
        verdict.facts.append(f"weights after {path['steps']} steps against one process with all batches: {off}")
    # Even a tiny difference grows from step to step.
    event = next((event for event in compared if event["relative"] > limit * 10 ** event["step"]), None)
    is_hooked = _hooked(ranks[0], compared, event is not None, verdict)
    if event is None:
        return
    drawn = any(True for _ in replay.of("noise"))
    batch_norm = any(event["batch_norm"] for event in ranks[0].of("model"))
    scale, cosine = event["scale"], event["cosine"] or 0.0
    if drawn or batch_norm:
        several = len(ranks)
        is_scaled = cosine > 0.9 and any(math.isclose(scale, by, rel_tol=0.15) for by in (several, 1 / several))
    else:
        sideways = math.sqrt(max(0.0, 1 - cosine**2))
        is_scaled = abs(scale - 1) > max(limit, 10 * sideways)  # the scale is nearly all of the difference
    if is_scaled:
        _scaled(event, ranks, alone, replay, limit, root, verdict)
    elif drawn:
        verdict.unknown.append("gradients: the model draws random numbers that cannot be disabled, so gradients differ")
    elif batch_norm:
        verdict.not_checked.append("gradients except their scale, as BatchNorm uses each rank's batch")
    elif not is_hooked:
        _uneven(event, ranks, limit, _loss_place(ranks[0], root), verdict)


def _hooked(rank: Rank, compared: list[Event], is_off: bool, verdict: Verdict) -> bool:
    """If the program has a DDP communication hook, add it to the verdict. Return whether the hook changes gradients."""
    hook = max(rank.of("comm_hook"), key=itemgetter("lossy"), default=None)
    if hook is None:
        return False
    if not hook["lossy"] and not is_off:
        verdict.not_checked.append(
            f"the effect of {hook['name']} ({_title(hook)}) on gradients after step {len(compared)}"
        )
    else:
        worst = 100 * max(event["relative"] for event in compared)
        when = f" from step {hook['begins']} on" if hook["begins"] else ""
        how = f"they are up to {worst:.2g}% off in the {len(compared)} steps compared"
        verdict.unknown.append(f"gradients: {hook['name']} ({_title(hook)}) changes them{when}: {how}")
    return bool(hook["lossy"]) or is_off


def _loss_place(rank: Rank, root: Path) -> Place:
    backward, loss = rank.first("backward"), rank.first("loss")
    place: Place = backward["place"] if backward else []
    if loss and loss["place"] and not (place and calls_backward(root, place)):
        return list(loss["place"])
    return loss_line(root, place)


def _rounding(rank: Rank, event: Event) -> float:
    compresses = any("compress" in hook["name"] and not hook["lossy"] for hook in rank.of("comm_hook"))
    if not compresses and not any(event["half"] for kind in ("forward", "collective") for event in rank.of(kind)):
        return _EXACT
    # If other weights of the ranks explain a difference, the difference is no rounding.
    is_explained = event.get("rest") is not None and event["relative"] > 2 * event["rest"]
    return _HALF / 3 if is_explained else _HALF


def judge_rate(alone: Rank, ranks: list[Rank], root: Path, verdict: Verdict) -> None:
    """If gradients agree, compare the first learning rates. More samples per step may justify a higher rate."""
    if not verdict.off or verdict.off[0] > _HALF:
        return
    pairs = (
        (step, ours, theirs)
        for (step, optimizer), event in ranks[0].steps.items()
        if step < _RATE_STEPS and (step, optimizer) in alone.steps
        for ours, theirs in zip(event["rate"], alone.steps[step, optimizer]["rate"], strict=False)
        if ours and theirs and not math.isclose(ours, theirs, rel_tol=0.1)
    )
    step, ours, theirs = next(pairs, (0, 0.0, 0.0))
    if not ours:
        return
    evidence = f"at step {step} the learning rate is {ours:.6g} with {len(ranks)} processes, {theirs:.6g} with one"
    passes = [rank.trainings for rank in (alone, *ranks)]
    one, *all_ = [per_step(rank, own) if own else 0 for rank, own in zip((alone, *ranks), passes, strict=True)]
    if one and sum(all_) <= one * 1.01:
        optimizer = ranks[0].first("optimizer")
        evidence += ", although a step has no more samples"
        place = rate_line(root, optimizer["place"] if optimizer else [])
        verdict.add("learning-rate", evidence, place, step=step)
    else:
        verdict.facts.append(evidence)


def _uneven(event: Event, ranks: list[Rank], limit: float, place: Place, verdict: Verdict) -> None:
    off = f"{100 * event['relative']:.2g}% off"
    weights, rest = event.get("weights"), event.get("rest")
    used = event.get("used_weights") or [1 / len(ranks)] * len(ranks)
    shares = [[weight / (sum(each) or 1) for weight in each] for each in (weights or used, used)]
    hook, why = ranks[0].first("comm_hook"), ""
    if hook:
        why = f"as {hook['name']} changes the gradients before they are averaged"
    elif not weights or rest is None or rest > 1e-3 + limit:
        why = "and is no weighted sum of the ranks': the loss depends on which samples share a batch"
    elif all(math.isclose(share, other, abs_tol=_SHARE) for share, other in zip(*shares, strict=True)):
        why = "although each rank has the right weight: are gradients rounded before averaging?"
    if why:
        verdict.unknown.append(f"gradients: the gradient of one process with all batches is {off}, {why}")
        return
    reduces = next(iter(_around_first_step(ranks[0])[0]), None)
    if reduces and len({rank.trainings[0].batch_size for rank in ranks}) > 1:
        place = reduces["place"]  # batch sizes differ: the average must weight the ranks
    wanted, given = (" and ".join(f"{share:.4f}" for share in each) for each in shares)
    kind, clip, seen = "uneven-weights", ranks[0].first("clip"), ranks[0].events
    if clip and reduces and seen.index(clip) < seen.index(reduces):
        kind, place = "clipped-apart", clip["place"]
    evidence = (
        f"at step {event['step']} the ranks' gradients have weights {given}; in one process with the same samples "
        f"{wanted}: the gradient is {off}"
    )
    verdict.add(kind, evidence, place, rank=0, step=event["step"])


def _scaled(
    event: Event, ranks: list[Rank], alone: Rank, replay: Rank, limit: float, root: Path, verdict: Verdict
) -> None:
    place, scale, several, step = _loss_place(ranks[0], root), event["scale"], len(ranks), event["step"]
    ways = [path["relative"] for path in replay.of("path")] if not replay.restarts + ranks[0].restarts else []
    if ways and max(ways) <= limit and {made["name"] for made in ranks[0].of("optimizer")} == {"SGD"}:
        how = "but the learning rate compensates: the weights move the same way"
        verdict.facts.append(f"the gradient is {scale:.4f} times that of one process, {how}")
        return
    same_batch = per_step(ranks[0], ranks[0].trainings) == per_step(alone, alone.trainings)
    evidence = (
        f"at step {step} the gradient is {scale:.4f} times that of one process with the batches of all {several} ranks"
    )
    if math.isclose(scale, 1 / several, rel_tol=0.02) and same_batch and divides(root, place):
        why = "this may be intended, as the program divides the loss by a number"
        verdict.unknown.append(f"gradients: {evidence}; {why}")
        return
    reduces = next(iter(_around_first_step(ranks[0])[0]), None)
    used = event.get("used_weights")
    if reduces and not (used and math.isclose(sum(used), 1, rel_tol=0.05)):
        weights = ", ".join(f"{value:.2f}" for value in used or ())
        evidence += f": the ranks' gradients are summed with weights {weights}" if used else ""
        place = reduces["place"]
    verdict.add("scaled-gradients", evidence, place, rank=0, step=step)


def _by_losses(ranks: list[Rank], replay: Rank | None, verdict: Verdict) -> None:
    if replay is None:
        verdict.unknown.append("gradients: they are sharded, and one process could not train on the ranks' batches")
        return
    ours = [_losses(rank) for rank in ranks]
    theirs = _losses(replay)
    steps = min(len(theirs), *map(len, ours))
    if steps < 2:
        verdict.unknown.append("gradients: they are sharded, and fewer than two losses were seen")
        return
    verdict.compared["losses"] = steps
    verdict.not_checked.append("gradients and weights, which are sharded")
    means = [sum(losses[at] for losses in ours) / len(ours) for at in range(steps)]
    worst = max(abs(mean - loss) / max(abs(loss), 1e-12) for mean, loss in zip(means, theirs, strict=False))
    verdict.facts.append(f"losses of {steps} steps against one process with all batches: {worst:.1e} off at most")
    if worst > 1e-3:
        why = f"the losses are {worst:.1%} off those of one process"
        verdict.unknown.append(f"gradients: they are sharded, and {why}")


def _losses(rank: Rank) -> list[float]:
    return [event["value"] for event in rank.of("backward") if event["value"] is not None]


def judge_randomness(alone: Rank, ranks: list[Rank], verdict: Verdict) -> None:
    """Add notes if all ranks draw the same noise, if buffers differ between ranks, or if a run is not repeatable."""
    states = [{event["step"]: event["state"] for event in rank.of("noise")} for rank in ranks]
    shared = [step for step in states[0] if all(step in other for other in states)]
    seed = ranks[0].first("seed")
    if len(ranks) > 1 and shared and len({other[shared[0]] for other in states}) == 1:
        evidence = "dropout and other noise draw the same numbers on every rank"
        verdict.add("same-noise", evidence, seed["place"] if seed else [])
    model = ranks[0].first("model")
    buffers = [{event["step"]: event["number"] for event in rank.of("buffers")} for rank in ranks]
    if model and model["batch_norm"] and any(other != buffers[0] for other in buffers):
        wrapper = ranks[0].first("ddp")
        evidence = "BatchNorm takes its statistics from each rank's own samples, so they differ between ranks"
        place = wrapper["place"] if wrapper else model["place"]
        verdict.add("unsynchronised-buffers", evidence, place)
    first, other = alone.first("step"), ranks[0].first("step")
    seeded = any(event["name"] == "torch" for event in alone.of("seed"))
    drawn = differing_draw([alone, ranks[0]])
    if drawn is None and first and other and first["weights"] != other["weights"] and not seeded:
        drawn = model["place"] if model else []
    if drawn is not None:
        evidence = "random draws depend on the seed of the process: the program sets none before them"
        verdict.add("not-repeatable", evidence, drawn)
