"""Situations that are neither a mistake nor the same training, from the events of ranks."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runner.tools.check.checking import check
from runner.tools.check.judge_evaluation import judge_evaluation
from runner.tools.check.judge_samples import judge_samples, naming
from runner.tools.check.mistakes import Verdict
from runner.tools.check.observation import Batch, Evaluation, Event, Pass, Rank
from runner.tools.check.processes import Program, Stillness, uneven
from tests.support.held_clock import HeldClock

PLACE = [["train.py", 7, "main"]]
TEST, REST = "train.py:8", "train.py:9"


def a_rank(number: int, events: Sequence[Event] = (), **seen: Any) -> Rank:
    rank = Rank(number, 2, list(events))
    rank.__dict__.update(seen)
    return rank


def a_pass(samples: Sequence[int], **told: Any) -> Pass:
    batch = Batch([(None, number) for number in samples])
    return Pass("train.py:7", PLACE, PLACE, batches=[batch], trains=True, is_broken=False, **told)


def an_evaluation(key: str, indices: Sequence[int], *, reduces: bool) -> Evaluation:
    loader = Pass(key, PLACE, PLACE, size=103, base=1)
    names, counted = [(index, index) for index in indices], Counter({"loss": len(indices)})
    reduced = [{"name": "all_reduce", "after": None, "place": PLACE}] if reduces else []
    return Evaluation(key, PLACE, 4, names, loader, counted, collectives=reduced)


@pytest.mark.parametrize(
    ("is_reduced", "has_rest", "kinds"),
    [
        pytest.param((True, False), True, [], id="each rank adds the rest to the sum"),
        pytest.param((False, True), True, ["padded-evaluation"], id="the rest is summed over the ranks"),
        pytest.param((True, False), False, ["partial-evaluation"], id="nobody evaluates the rest"),
    ],
)
def test_the_rest_of_a_division_is_to_be_counted_once(
    is_reduced: tuple[bool, bool], has_rest: bool, kinds: list[str]
) -> None:
    ranks = []
    for rank in range(2):
        evaluations = [an_evaluation(TEST, range(rank, 102, 2), reduces=is_reduced[0])]
        evaluations += [an_evaluation(REST, [102], reduces=is_reduced[1])] * has_rest
        ranks.append(a_rank(rank, evaluations=evaluations))
    verdict = Verdict()
    judge_evaluation(a_rank(0, evaluations=[an_evaluation(TEST, range(103), reduces=False)]), ranks, Path(), verdict)
    assert [found.kind for found in verdict.findings] == kinds


def test_a_stream_that_each_worker_reads_as_a_whole_is_noted() -> None:
    told = {"sampler": "_InfiniteConstantSampler", "workers": 2}
    alone = a_rank(0, trainings=[a_pass([*range(64)] * 2, **told)])
    ranks = [a_rank(rank, trainings=[a_pass([*range(rank, 64, 2)] * 2, **told)]) for rank in range(2)]
    verdict = Verdict()
    judge_samples(alone, ranks, Path(), verdict)
    assert (verdict.word, [found.kind for found in verdict.findings]) == ("same", ["repeated-samples"])


@pytest.mark.parametrize(
    ("contents", "size", "name"),
    [
        (((0, 10), (1, 11)), 32, ("content", 10)),
        (((0, 10), (0, 11)), 64, ("index", 0)),  # noise: the content changes
        (((0, 10), (0, 11)), 32, None),  # noise, and each rank has its own list
    ],
)
def test_a_sample_is_named_by_what_can_be_trusted(
    contents: tuple[tuple[int, int], ...], size: int, name: tuple[str, int] | None
) -> None:
    one, other = (Pass("a", PLACE, PLACE, size=each, batches=[Batch([*contents])]) for each in (64, size))
    naming_ = naming([[one]], [[one], [other]])
    assert (naming_ and naming_((0, 10))) == name


WAITS: Event = {"kind": "waits", "name": "barrier", "place": PLACE}


@pytest.mark.parametrize(
    ("backwards", "lengths", "last", "why"),
    [
        ((60, 61), (30, 39), WAITS, "rank 0 has 30 batches an epoch, rank 1 has 39"),
        ((5, 6), None, WAITS, "rank 0 has 5 backward passes, rank 1 has 6"),
        ((5, 6), None, {"kind": "batch"}, ""),  # the rank still works
        ((6, 6), (30, 39), WAITS, ""),
    ],
)
def test_ranks_that_stand_still_at_unequal_steps_are_named(
    backwards: tuple[int, int], lengths: tuple[int, int] | None, last: Event, why: str
) -> None:
    ranks = []
    for rank in range(2):
        loaders = [a_pass([0], length=lengths[rank])] if lengths else []
        ranks.append(a_rank(rank, [*[{"kind": "backward"}] * backwards[rank], last], loaders=loaders))
    said = uneven(ranks, stand_still=True)
    assert (said.startswith(why), bool(said)) == (True, bool(why))


def test_ranks_are_looked_at_once_they_have_done_nothing_for_some_time(tmp_path: Path, held_clock: HeldClock) -> None:
    for rank in range(2):
        events = [{"kind": "rank", "rank": rank, "world": 2}, {"kind": "step"}, *[{"kind": "backward"}] * rank, WAITS]
        (tmp_path / f"rank-{rank}.jsonl").write_text("\n".join(map(json.dumps, events)))
    still = Stillness(tmp_path)
    for seconds, is_told in ((0, False), (19, False), (2, True), (0, False)):
        held_clock.advance(seconds)
        assert ("unequal" in still.uneven()) == is_told


HOOKED = """
import time, torch, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
torch.manual_seed(1)
world, rank = dist.get_world_size(), dist.get_rank()
x = torch.randn(16, 8)
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
# hook
optimizer = torch.optim.SGD(model.parameters(), 0.1)
begin, step = time.monotonic(), 0
while step < 8:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x[rank::world]), x[rank::world]).backward()
    optimizer.step()
    step += 1
store = dist.distributed_c10d._get_default_store()  # a rank that ends while the other wakes breaks its connection
store.set(f"ended {rank}", "")
if rank == 0:
    store.wait([f"ended {other}" for other in range(world)])
"""
POWER = """
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
model.register_comm_hook(power.PowerSGDState(None, 1, start_powerSGD_iter=4), power.powerSGD_hook)
"""
BY_THE_CLOCK = """go = torch.ones(1)
while go.fill_(time.monotonic() < begin + 1.5) and (dist.broadcast(go, 0) or go.item()):
    x = torch.randn(16, 8); time.sleep(0.01 * world)
"""
AVERAGED = """nn.Linear(8, 8)
def average(*_):
    for parameter in model.parameters():
        dist.all_reduce(parameter.data)
        parameter.data /= world
from torch.optim.optimizer import register_optimizer_step_post_hook
register_optimizer_step_post_hook(average)
"""
PARTS = """
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.distributed._tensor import Replicate
mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (world,))
if world > 1:
    model = parallelize_module(nn.Linear(8, 8), mesh, ColwiseParallel(output_layouts=Replicate()))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(
    ("change", "word"),
    [
        (("# hook", POWER), "powerSGD_hook (train.py:11)"),
        (("while step < 8:", BY_THE_CLOCK), "by the clock"),
        (("nn.parallel.DistributedDataParallel(nn.Linear(8, 8))\n", AVERAGED), "as if weights were averaged"),
        (("# hook", PARTS), "(DTensor)"),
    ],
)
def test_what_is_not_known_to_be_the_same_is_unknown(change: tuple[str, str], word: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HOOKED.replace(*change))
    verdict = check(Program([["train.py"]] * 2, tmp_path), 2, 300, tmp_path / "seen", lambda _: None)
    assert (verdict.word, word in " ".join(verdict.unknown)) == ("unknown", True), verdict
