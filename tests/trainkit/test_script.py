"""Event lines in a script of one's own: what it has to do for them, what stays as it was, and what misuse comes to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from runner.core.ports import free_port
from tests.experiments.conftest import Ended, start
from tests.support.held_clock import HELD_CLOCK
from tests.support.projects import ROOT

Script = Callable[..., Ended]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Run a script in a folder of its own, in so many processes, or as plain Python does."""

    def script(text: str, processes: int | None = None, *words: str, **env: str) -> Ended:
        path = tmp_path / "train.py"
        path.write_text(dedent(text))
        return start([str(path), *words], processes, env)

    return script


def good(ended: Ended) -> Ended:
    assert ended.code == 0, ended.stderr
    for rank in {event["metadata"]["rank"] for event in ended.events}:
        own = [event for event in ended.events if event["metadata"]["rank"] == rank]
        assert [event["metadata"]["seq"] for event in own] == list(range(len(own)))
        assert (own[0]["key"], own[-1]["key"]) == ("run_start", "run_stop")
        assert own[-1]["metadata"]["status"] == "success"
    return ended


SLOW_TO_START = """
    from trainkit import process_facts, running
    known = process_facts.of_process
    process_facts.of_process = lambda *args: time.sleep(600) or known(*args)
    with running():
        time.sleep(3)
"""


def test_the_time_of_a_process_begins_with_its_first_line(script: Script) -> None:
    ended = good(script(HELD_CLOCK + SLOW_TO_START))
    start, stop = ended.first("run_start"), ended.first("run_stop")
    assert stop["time_ms"] - start["time_ms"] == 3_000
    assert stop["metadata"]["total_seconds"] == pytest.approx(3)


THREE_LINES = """
    from trainkit import running
    with running() as run:
        run.report(train_seconds=1.5, final_accuracy=0.5)
"""
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
            "print('a group is left:', dist.is_initialized())",
        ]
    )


MAKE = "dist.init_process_group('gloo')"
GROUPS = {
    "joined by the run": ("", "run.join()", "", False),
    "made before by the script": (MAKE, "run.join()", "", True),
    "made within by a framework": ("", "dist.init_process_group()", "", True),
    "made and destroyed by the script": (MAKE, "run.join()", "dist.destroy_process_group()", False),
}


def test_three_lines_do_without_torchrun(script: Script) -> None:
    ended = good(script(THREE_LINES, None, "--lr", "0.1"))
    begun = ended.first("run_start")["metadata"]
    assert (begun["program"], begun["args"]) == ("train.py", {"argv": ["--lr", "0.1"]})
    assert (begun["world_size"], begun["device"], begun["backend"]) == (1, "cpu", None)
    stats = ended.first("tracked_stats")["value"]
    assert (stats["train_seconds"], stats["final_accuracy"]) == (1.5, 0.5)
    assert stats["peak_bytes"] > 10_000_000
    assert ended.stderr == ""


@pytest.mark.parametrize("kind", GROUPS)
def test_all_ranks_are_counted_whoever_makes_the_group_and_only_an_own_group_is_left(script: Script, kind: str) -> None:
    before, within, after, stays = GROUPS[kind]
    ended = good(script(with_group(before, within, after), 2))
    epochs = [event["metadata"] for event in ended.all("epoch_stop") if event["metadata"]["rank"] == 0]
    assert [(one["samples"], one["trained_samples"], one["global_batch_size"]) for one in epochs] == [(24, 51, 17)] * 2
    assert [one["loss"] for one in epochs] == [1.0, 2.0]
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
    def work(rank, port, early):
        def join():
            dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
        if early:
            join()
        with running() as run:
            if not early:
                join()
            for number in (1, 2):
                with run.epoch(number) as epoch:
                    epoch.add(8 + rank, float(number))
            sys.stdout.write(f"place: {run.rank} {run.world_size} {run.first}\\n")
        dist.destroy_process_group()
    if __name__ == "__main__":
        mp.spawn(work, (int(sys.argv[2]), sys.argv[1] == "early"), nprocs=2)
"""


@pytest.mark.slow
def test_processes_that_a_script_starts_itself_report_as_the_ranks_of_its_group(script: Script) -> None:
    ended = good(script(SPAWNED, None, "early", str(free_port())))
    begun = [event["metadata"] for event in ended.all("run_start")]
    assert [(one["rank"], one["world_size"], one["local_rank"]) for one in begun] == [(0, 2, 0), (1, 2, 1)]
    assert [one["local_world_size"] for one in begun] == [2, 2]
    assert ended.first("epoch_stop")["metadata"]["trained_samples"] == 17
    assert {event["metadata"]["rank"] for event in ended.all("load")} <= {0}
    assert ended.stderr == ""


@pytest.mark.slow
def test_of_processes_whose_group_comes_late_rank_0_alone_goes_on_and_says_so_once(script: Script) -> None:
    ended = script(SPAWNED, None, "late", str(free_port()))
    assert ended.code == 0, ended.stderr
    assert [event["metadata"]["trained_samples"] for event in ended.all("epoch_stop")] == [17, 17]
    assert len(ended.all("run_stop")) == 1
    assert sorted(line for line in ended.stdout.decode().splitlines() if line.startswith("place")) == [
        "place: 0 2 True",
        "place: 1 2 False",
    ]
    assert ended.stderr == (
        "trainkit: a process group of 2 was made behind running(), which took each process for the only one:"
        " rank 0 alone reports; make the group before, or start the script by torchrun\n"
    )


def test_nothing_of_the_scripts_numerics_is_changed_unless_it_is_asked_for(script: Script) -> None:
    text = """
        import sys, torch
        from trainkit import running
        def settings():
            cudnn = torch.backends.cudnn
            return (torch.get_num_threads(), cudnn.benchmark, cudnn.deterministic,
                    torch.are_deterministic_algorithms_enabled(), torch.get_rng_state().sum().item())
        torch.set_num_threads(3)
        torch.backends.cudnn.benchmark = True
        before = settings()
        with running(repeatable="ask" in sys.argv) as run:
            print("same:", settings() == before, settings()[3])
    """
    assert b"same: True False" in good(script(text)).stdout
    assert b"same: False True" in good(script(text, None, "ask")).stdout


def test_arguments_may_be_of_any_kind_and_never_crowd_out_the_other_facts(script: Script) -> None:
    for args, expected in (
        ("argparse.Namespace(lr=0.1, device='cuda:7', threads=9)", {"lr": 0.1, "device": "cuda:7", "threads": 9}),
        ("{'lr': float('nan'), 'path': pathlib.Path('a')}", {"lr": "nan", "path": "a"}),
        ("Settings()", {"lr": 1, "names": ["a", "b"]}),
    ):
        text = f"""
            import argparse, dataclasses, pathlib
            from trainkit import running
            @dataclasses.dataclass
            class Settings:
                lr: int = 1
                names: tuple = ("a", "b")
            with running("mine", {args}) as run:
                pass
        """
        begun = good(script(text)).first("run_start")["metadata"]
        assert (begun["program"], begun["args"], begun["device"]) == ("mine", expected, "cpu")
    text = """
        from trainkit import running
        with running(args={f"name{number}": "x" * 5000 for number in range(300)}) as run:
            pass
    """
    begun = good(script(text)).first("run_start")["metadata"]
    assert begun["args"]["left_out"] > 200
    assert len(begun["program_sha256"]) == 64
    assert begun["torch"]


ENDS = {
    "raise ValueError('no')": (1, "aborted"),
    "sys.exit(3)": (3, "aborted"),
    "sys.exit(0)": (0, "success"),
}


@pytest.mark.parametrize("end", ENDS)
def test_however_the_block_ends_the_last_event_says_so(script: Script, end: str) -> None:
    text = f"import sys\nfrom trainkit import running\nwith running() as run:\n    {end}\n"
    ended = script(text)
    assert (ended.code, ended.events[-1]["key"]) == (ENDS[end][0], "run_stop")
    assert ended.events[-1]["metadata"]["status"] == ENDS[end][1]
    assert (ended.events[-1]["metadata"].get("error") == "ValueError: no") == (ended.code == 1)
    assert [event["key"] for event in ended.events].count("tracked_stats") == (ENDS[end][1] == "success")


MISUSES = {
    "with run.epoch(1):\n    with run.epoch(2): pass": "RuntimeError: epoch 2 begins within epoch 1",
    "with run.epoch(2): pass\nwith run.epoch(2): pass": "ValueError: epoch 2 comes after epoch 2",
    "with run.epoch(1.5): pass": "TypeError: the number of an epoch has to be a whole number, not float",
    "with run.epoch(3) as epoch: epoch.add(2.0)": "TypeError: the number of samples has to be a whole number",
    "with run.epoch(4) as epoch: epoch.add(4, torch.ones(3))": "ValueError: the loss has to be one number, or one for",
    "with run.epoch(5) as epoch: epoch.add(4, 'low')": "TypeError: the loss has to be a number, not str",
    "run.evaluated(accuracy=97.2)": "ValueError: accuracy has to be a share from 0 to 1, not 97.2",
    "run.evaluated(correct=11, samples=10)": "ValueError: 11 of 10 samples cannot be right",
    "run.report(final_f1=np.ones(2))": "ValueError: final_f1 has to be one number; it has the shape (2,)",
    "run.report(train_seconds=-1)": "ValueError: train_seconds has to be 0 or more",
    "run.report(**{'val/acc': 1})": "ValueError: 'val/acc' names no figure",
    "running().__enter__()": "RuntimeError: running() was opened before in this process",
}


def test_misuse_is_an_error_that_names_what_is_wrong(script: Script) -> None:
    text = f"""
        import sys
        import numpy as np, torch
        from trainkit import running
        with running() as run:
            for misuse in {list(MISUSES)!r}:
                try:
                    exec(misuse)
                except Exception as error:
                    sys.stdout.write(f"misused: {{type(error).__name__}}: {{error}}\\n")
            run.report(final_f1=1)
    """
    lines = good(script(text)).stdout.decode().splitlines()
    errors = [line.removeprefix("misused: ") for line in lines if line.startswith("misused: ")]
    for error, expected in zip(errors, MISUSES.values(), strict=True):
        assert error.startswith(expected)


def test_what_comes_behind_the_block_is_an_error_and_no_event(script: Script) -> None:
    ended = script(f"{dedent(THREE_LINES)}run.report(final_loss=1)")
    assert (ended.code, ended.events[-1]["key"]) == (1, "run_stop")
    assert "the run has ended" in ended.stderr


def test_a_run_that_reports_nothing_and_one_whose_loss_is_nan_say_so(script: Script) -> None:
    ended = good(script("from trainkit import running\nwith running() as run:\n    pass\n", 2))
    assert ended.stderr.count("trainkit: no epoch, no evaluation and no figure was reported") == 1
    text = """
        import torch
        from trainkit import running
        with running() as run:
            with run.epoch(1) as epoch:
                epoch.add(4, torch.tensor(float("nan")))
            run.report(final_f1=float("inf"))
    """
    ended = good(script(text))
    assert ended.stderr == "trainkit: the loss of epoch 1 is nan\ntrainkit: final_f1 is inf and is left out\n"
    assert ended.first("epoch_stop")["metadata"]["loss_hex"] == "nan"
    assert ended.first("epoch_stop")["metadata"]["loss"] is None
    assert "final_f1" not in ended.first("tracked_stats")["value"]


def test_an_evaluation_within_an_epoch_and_what_is_left_out_are_not_training(script: Script) -> None:
    text = """
    from trainkit import running
    def slow():
        for number in range(2):
            time.sleep(1)
            yield number
    with running() as run, run.epoch(1) as epoch:
        for _ in epoch.timed(slow()):
            time.sleep(10)
            epoch.add(1, 1.0)
        with run.evaluation(1) as evaluation:
            time.sleep(300)
            evaluation.add(4, correct=3, loss=0.5)
            evaluation.metrics["f1"] = 0.25
        time.sleep(4000)
        epoch.leave_out(4000)
    """
    ended = good(script(HELD_CLOCK + text))
    done = ended.first("epoch_stop")["metadata"]
    assert (done["seconds"], done["train_seconds"]) == (pytest.approx(4322), pytest.approx(22))
    assert ended.first("eval_stop")["metadata"]["seconds"] == pytest.approx(300)
    stats = ended.first("tracked_stats")["value"]
    assert (stats["input_seconds"], stats["train_seconds"]) == (pytest.approx(2), pytest.approx(22))
    assert (stats["final_accuracy"], stats["final_eval_loss"], stats["final_f1"]) == (0.75, 0.5, 0.25)
    assert ended.first("eval_accuracy")["metadata"]["f1"] == 0.25


def test_the_batch_that_a_script_reports_stands_in_each_epoch_in_place_of_the_counted_one(script: Script) -> None:
    text = """
        import sys
        from trainkit import running
        with running() as run:
            if "states" in sys.argv:
                run.report(global_batch_size=32)
            for number in (1, 2):
                with run.epoch(number) as epoch:
                    [epoch.add(8 * number) for part in range(4)]
    """
    for words, found in (((), [8, 16]), (("states",), [32, 32])):
        ended = good(script(text, None, *words))
        assert [one["metadata"]["global_batch_size"] for one in ended.all("epoch_stop")] == found
        assert [one["value"] for one in ended.all("global_batch_size")] == found[:1]


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


def test_a_place_that_no_launcher_sets_so_is_one_line(script: Script) -> None:
    ended = script(THREE_LINES, None, RANK="first")
    assert (ended.code, ended.events) == (2, [])
    assert ended.stderr.startswith("error: RANK, WORLD_SIZE,")
    assert ended.stderr.count("\n") == 1


@pytest.mark.slow
def test_the_package_is_imported_without_torch_and_without_any_framework() -> None:
    look = (
        "import sys, trainkit, trainkit.files, trainkit.sources;"
        "print(sorted({name.partition('.')[0] for name in sys.modules} &"
        " {'torch', 'transformers', 'accelerate', 'pytorch_lightning', 'runner'}));"
        "from trainkit import running; print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True False"]
    with pytest.raises(ImportError, match="cannot import name 'walking'"):
        exec("from trainkit import walking")  # noqa: S102


def test_a_script_alone_reports_its_gradients_once(script: Script) -> None:
    text = """
        import torch
        from trainkit import running
        net = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Linear(4, 2))
        with running() as run:
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            with run.epoch(1) as epoch:
                for _ in range(2):
                    net(torch.ones(3, 8)).sum().backward()
                    optimizer.step()
                    epoch.add(3)
        optimizer.step()
    """
    [told] = good(script(text)).all("step_profile")
    assert told["value"]["gradient_bytes"] == 4 * (8 * 4 + 4 + 4 * 2 + 2)
    assert told["value"]["matrices"] == [[4, 8, 1], [2, 4, 1]]
    assert not good(script(text, 2)).all("step_profile")
