"""Scripts in several processes: all ranks are counted, whoever creates the process group."""

from textwrap import dedent

import pytest

from runner.core.ports import free_port
from tests.experiments.conftest import good
from tests.trainkit.conftest import Script

LOOP = """
    for number in (1, 2):
        with run.epoch(number) as epoch:
            for _ in range(3):
                epoch.add(8 + run.rank, float(number))
        with run.evaluation() as evaluation:
            evaluation.add(10, correct=9 - run.rank)
"""


def with_group(before: str, within: str, after: str) -> str:
    body = dedent(LOOP).strip().replace("\n", "\n    ")
    # One write at the end: both ranks share one stdout.
    return f"""
import torch.distributed as dist
from trainkit import running
{before}
with running() as run:
    {within}
    {body}
{after}
print(f'a group is left: {{dist.is_initialized()}}')
"""


MAKE = "dist.init_process_group('gloo')"
GROUPS = {
    "joined by the run": ("", "run.join()", "", False),
    "made within by a framework": ("", "dist.init_process_group()", "", True),
    "made and destroyed by the script": (MAKE, "run.join()", "dist.destroy_process_group()", False),
}


@pytest.mark.parametrize("kind", GROUPS)
def test_all_ranks_are_counted_whoever_creates_the_group_and_only_an_own_group_is_left(
    script: Script, kind: str
) -> None:
    before, within, after, stays = GROUPS[kind]
    ended = good(script(with_group(before, within, after), 2))
    facts = ("samples", "trained_samples", "global_batch_size", "loss")
    for number, epoch in enumerate(ended.told("epoch_stop")[:2], 1):  # of rank 0
        assert [epoch[fact] for fact in facts] == [24, 51, 17, number]
    assert ended.values("eval_accuracy") == [0.85, 0.85]
    assert ended.told("eval_accuracy", "epoch_num") == [1, 2]
    stats = ended.stats
    assert stats["samples_per_second"] == pytest.approx(2 * 51 / stats["train_seconds"])
    assert ended.stdout.count(f"a group is left: {stays}".encode()) == 2
    assert ended.stderr == ""


def test_without_a_group_processes_are_not_summed_and_a_notice_is_printed(script: Script) -> None:
    ended = good(script(with_group("", "", ""), 2))
    for epoch in ended.told("epoch_stop"):
        assert epoch["samples"] == 24 + 3 * epoch["rank"]
        assert "trained_samples" not in epoch
    assert "no process group" in ended.stderr


SPAWNED = """
    import sys
    import torch.distributed as dist
    import torch.multiprocessing as mp
    from trainkit import running
    def work(rank, port):
        dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
        with running() as run:
            for number in (1, 2):
                with run.epoch(number) as epoch:
                    epoch.add(8 + rank, float(number))
        dist.destroy_process_group()
    if __name__ == "__main__":
        mp.spawn(work, (int(sys.argv[1]),), nprocs=2)
"""


@pytest.mark.slow
def test_processes_that_a_script_starts_itself_have_the_ranks_of_its_group(script: Script) -> None:
    ended = good(script(SPAWNED, None, str(free_port())))
    begun = ended.told("run_start")
    place = ("rank", "world_size", "local_rank", "local_world_size")
    assert [[start[name] for name in place] for start in begun] == [[0, 2, 0, 2], [1, 2, 1, 2]]
    assert ended.first("epoch_stop")["metadata"]["trained_samples"] == 17
    assert set(ended.told("load", "rank")) <= {0}
    assert ended.stderr == ""


def test_parameters_that_differ_between_ranks_end_the_run(script: Script) -> None:
    text = """
        import sys, torch
        from trainkit import running
        with running() as run:
            run.join()
            torch.manual_seed(run.rank if "differ" in sys.argv else 0)
            model = torch.nn.Linear(3, 1).to(torch.bfloat16)
            run.require_equal_parameters(model)
    """
    assert len(set(good(script(text, 2)).values("parameters"))) == 1
    ended = script(text, 2, "differ")
    assert ended.code == 1
    assert "RuntimeError: the parameters of rank 1" in ended.stderr
