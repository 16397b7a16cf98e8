"""Event lines in a script of one's own: what it has to do for them, what stays as it was, and what misuse comes to."""

import subprocess
import sys
from textwrap import dedent

import pytest

from tests.experiments.conftest import good
from tests.support.held_clock import HELD_CLOCK
from tests.support.projects import ROOT
from tests.trainkit.conftest import Script

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


def test_three_lines_do_without_torchrun(script: Script) -> None:
    ended = good(script(THREE_LINES, None, "--lr", "0.1"))
    begun = ended.first("run_start")["metadata"]
    assert (begun["program"], begun["args"]) == ("train.py", {"argv": ["--lr", "0.1"]})
    assert (begun["world_size"], begun["device"], begun["backend"]) == (1, "cpu", None)
    stats = ended.stats
    assert (stats["train_seconds"], stats["final_accuracy"]) == (1.5, 0.5)
    assert stats["peak_bytes"] > 10_000_000
    assert ended.stderr == ""


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
    imports = "import argparse, dataclasses, pathlib\nfrom trainkit import running\n"
    settings = "dataclasses.make_dataclass('Settings', ['lr', 'names'])(1, ('a', 'b'))"
    for args, expected in (
        ("argparse.Namespace(lr=0.1, device='cuda:7', threads=9)", {"lr": 0.1, "device": "cuda:7", "threads": 9}),
        ("{'lr': float('nan'), 'path': pathlib.Path('a')}", {"lr": "nan", "path": "a"}),
        (settings, {"lr": 1, "names": ["a", "b"]}),
    ):
        begun = good(script(f"{imports}with running('mine', {args}): pass")).first("run_start")["metadata"]
        assert (begun["program"], begun["args"], begun["device"]) == ("mine", expected, "cpu")
    many = "{f'name{number}': 'x' * 5000 for number in range(300)}"
    begun = good(script(f"{imports}with running(args={many}): pass")).first("run_start")["metadata"]
    assert begun["args"]["left_out"] > 200
    assert begun["torch"]


@pytest.mark.parametrize(
    ("end", "code", "status"),
    [("raise ValueError('no')", 1, "aborted"), ("sys.exit(3)", 3, "aborted"), ("sys.exit(0)", 0, "success")],
)
def test_however_the_block_ends_the_last_event_says_so(script: Script, end: str, code: int, status: str) -> None:
    ended = script(f"import sys\nfrom trainkit import running\nwith running() as run:\n    {end}\n")
    last = ended.events[-1]
    assert (ended.code, last["key"], last["metadata"]["status"]) == (code, "run_stop", status)
    assert (last["metadata"].get("error") == "ValueError: no") == (code == 1)
    assert [event["key"] for event in ended.events].count("tracked_stats") == (status == "success")


def test_a_figure_behind_the_block_and_a_place_that_no_launcher_sets_so_are_errors(script: Script) -> None:
    ended = script(f"{dedent(THREE_LINES)}run.report(final_loss=1)")
    assert (ended.code, ended.events[-1]["key"]) == (1, "run_stop")
    assert "the run has ended" in ended.stderr
    ended = script(THREE_LINES, None, RANK="first")
    assert (ended.code, ended.events) == (2, [])
    assert ended.error.startswith("error: RANK, WORLD_SIZE,")
    assert ended.stderr.count("\n") == 1


MISUSES = {
    "with run.epoch(1):\n    with run.epoch(2): pass": "RuntimeError: epoch 2 begins within epoch 1",
    "with run.epoch(4) as epoch: epoch.add(4, torch.ones(3))": "ValueError: the loss has to be one number, or one for",
    "run.evaluated(accuracy=97.2)": "ValueError: accuracy has to be a share from 0 to 1, not 97.2",
    "run.report(**{'val/acc': 1})": "ValueError: 'val/acc' names no figure",
    "running().__enter__()": "RuntimeError: running() was opened before in this process",
}


def test_misuse_is_an_error_that_names_what_is_wrong(script: Script) -> None:
    text = f"""
        import sys
        import torch
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
    assert "final_f1" not in ended.stats


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
    stats = ended.stats
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
        assert ended.told("epoch_stop", "global_batch_size") == found
        assert ended.values("global_batch_size") == found[:1]
        assert not any("data_seconds" in event["metadata"] for event in ended.all("epoch_stop"))  # nothing is timed


@pytest.mark.slow
def test_the_package_is_imported_without_torch_and_without_any_framework() -> None:
    look = (
        "import sys, trainkit, trainkit.files, trainkit.sources, trainkit.arguments, trainkit.archives,"
        " trainkit.prepare, trainkit.parent;"
        "print(sorted({name.partition('.')[0] for name in sys.modules} &"
        " {'torch', 'transformers', 'accelerate', 'pytorch_lightning', 'runner'}));"
        "from trainkit import running; print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True False"]
