"""Scripts of one's own in several processes: whoever makes the group, all ranks are counted."""

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
    return "\n".join(
        [
            "import torch.distributed as dist",
            "from trainkit import running",
            before,
            "with running() as run:",
            f"    {within}",
            f"    {body}",
            after,
            "print(f'a group is left: {dist.is_initialized()}')",  # one write: both ranks have one stdout
        ]
    )


MAKE = "dist.init_process_group('gloo')"
GROUPS = {
    "joined by the run": ("", "run.join()", "", False),
    "made within by a framework": ("", "dist.init_process_group()", "", True),
    "made and destroyed by the script": (MAKE, "run.join()", "dist.destroy_process_group()", False),
}


@pytest.mark.parametrize("kind", GROUPS)
def test_all_ranks_are_counted_whoever_makes_the_group_and_only_an_own_group_is_left(script: Script, kind: str) -> None:
    before, within, after, stays = GROUPS[kind]
    ended = good(script(with_group(before, within, after), 2))
    epochs = [event["metadata"] for event in ended.all("epoch_stop") if event["metadata"]["rank"] == 0]
    assert [(epoch["samples"], epoch["trained_samples"], epoch["global_batch_size"]) for epoch in epochs] == [
        (24, 51, 17)
    ] * 2
    assert [epoch["loss"] for epoch in epochs] == [1.0, 2.0]
    (first, second) = ended.all("eval_accuracy")
    assert (first["value"], first["metadata"]["correct"], first["metadata"]["samples"]) == (0.85, 17, 20)
    assert second["metadata"]["epoch_num"] == 2
    stats = ended.first("tracked_stats")["value"]
    assert stats["samples_per_second"] == pytest.approx(2 * 51 / stats["train_seconds"])
    assert ended.stdout.count(f"a group is left: {stays}".encode()) == 2
    assert ended.stderr == ""


def test_processes_without_a_group_are_not_added_up_and_a_line_says_so(script: Script) -> None:
    ended = good(script(with_group("", "", ""), 2))
    for event in ended.all("epoch_stop"):
        assert event["metadata"]["samples"] == 24 + 3 * event["metadata"]["rank"]
        assert "trained_samples" not in event["metadata"]
    said = "trainkit: 2 processes and no process group: what the ranks count cannot be added up\n"
    assert ended.stderr == said


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
def test_processes_that_a_script_starts_itself_report_as_the_ranks_of_its_group(script: Script) -> None:
    ended = good(script(SPAWNED, None, str(free_port())))
    begun = [event["metadata"] for event in ended.all("run_start")]
    assert [(start["rank"], start["world_size"], start["local_rank"]) for start in begun] == [(0, 2, 0), (1, 2, 1)]
    assert [start["local_world_size"] for start in begun] == [2, 2]
    assert ended.first("epoch_stop")["metadata"]["trained_samples"] == 17
    assert {event["metadata"]["rank"] for event in ended.all("load")} <= {0}
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
    same = good(script(text, 2))
    assert len({event["value"] for event in same.all("parameters")}) == 1
    ended = script(text, 2, "differ")
    assert ended.code == 1
    assert "RuntimeError: the parameters of rank 1 are not those of rank 0" in ended.stderr
