"""Events of a script with one process: what it needs for them, what stays unchanged, and misuse."""

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


def test_the_time_of_a_process_begins_with_its_first_event(script: Script) -> None:
    ended = good(script(HELD_CLOCK + SLOW_TO_START))
    start, stop = ended.first("run_start"), ended.first("run_stop")
    assert stop["time_ms"] - start["time_ms"] == 3_000
    assert stop["metadata"]["total_seconds"] == pytest.approx(3)


THREE_LINES = """
    from trainkit import running
    with running() as run:
        run.report(train_seconds=1.5, final_accuracy=0.5)
"""


def test_three_lines_suffice_without_torchrun(script: Script) -> None:
    ended = good(script(THREE_LINES, None, "--lr", "0.1"))
    begun = ended.first("run_start")["metadata"]
    assert (begun["program"], begun["args"]) == ("train.py", {"argv": ["--lr", "0.1"]})
    assert (begun["world_size"], begun["device"], begun["backend"]) == (1, "cpu", None)
    assert ended.stats.items() > {"train_seconds": 1.5, "final_accuracy": 0.5}.items()
    assert ended.stderr == ""


def test_the_scripts_numerics_change_only_on_request(script: Script) -> None:
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


def test_arguments_of_any_kind_are_kept_within_a_limit(script: Script) -> None:
    many = "{f'name{number}': 'x' * 5000 for number in range(300)}"
    for args, expected in (
        ("argparse.Namespace(lr=0.1, device='cuda:7')", {"lr": 0.1, "device": "cuda:7"}),
        ("{'lr': float('nan'), 'path': pathlib.Path('a')}", {"lr": "nan", "path": "a"}),
        ("dataclasses.make_dataclass('Settings', ['lr', 'names'])(1, ('a', 'b'))", {"lr": 1, "names": ["a", "b"]}),
        (many, None),
    ):
        text = f"import argparse, dataclasses, pathlib, trainkit\nwith trainkit.running('mine', {args}): pass"
        begun = good(script(text)).first("run_start")["metadata"]
        assert (begun["program"], begun["device"]) == ("mine", "cpu")
        if expected:
            assert begun["args"] == expected
        else:
            assert begun["args"]["left_out"] > 200


@pytest.mark.parametrize(
    ("end", "code", "status"),
    [("raise ValueError('no')", 1, "aborted"), ("sys.exit(3)", 3, "aborted"), ("sys.exit(0)", 0, "success")],
)
def test_the_last_event_names_the_end_of_the_block(script: Script, end: str, code: int, status: str) -> None:
    ended = script(f"import sys\nfrom trainkit import running\nwith running() as run:\n    {end}\n")
    last = ended.events[-1]
    assert (ended.code, last["key"], last["metadata"]["status"]) == (code, "run_stop", status)
    assert (last["metadata"].get("error") == "ValueError: no") == (code == 1)
    assert len(ended.all("tracked_stats")) == (status == "success")


def test_late_figures_and_invalid_ranks_are_errors(script: Script) -> None:
    ended = script(f"{dedent(THREE_LINES)}run.report(final_loss=1)")
    assert (ended.code, ended.events[-1]["key"]) == (1, "run_stop")
    assert "the run has ended" in ended.stderr
    ended = script(THREE_LINES, None, RANK="first")
    assert (ended.code, ended.events) == (2, [])
    assert "RANK, WORLD_SIZE," in ended.error


MISUSES = {
    "with run.epoch(1):\n    with run.epoch(2): pass": "RuntimeError: epoch 2",
    "with run.epoch(4) as epoch: epoch.add(4, torch.ones(3))": "ValueError: the loss",
    "run.evaluated(accuracy=97.2)": "ValueError: accuracy",
    "run.report(**{'val/acc': 1})": "ValueError: 'val/acc'",
    "running().__enter__()": "RuntimeError: running()",
}


def test_misuse_is_an_error_that_names_the_cause(script: Script) -> None:
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


def test_a_run_without_figures_and_one_with_a_nan_loss_print_a_notice(script: Script) -> None:
    ended = good(script("from trainkit import running\nwith running() as run:\n    pass\n", 2))
    assert ended.stderr.count("trainkit: no epoch") == 1
    text = """
        import torch
        from trainkit import running
        with running() as run:
            with run.epoch(1) as epoch:
                epoch.add(4, torch.tensor(float("nan")))
            run.report(final_f1=float("inf"))
    """
    ended = good(script(text))
    assert [line.split(" ")[1:3] for line in ended.stderr.splitlines()] == [["the", "loss"], ["final_f1", "is"]]
    epoch = ended.first("epoch_stop")["metadata"]
    assert (epoch["loss_hex"], epoch["loss"], "final_f1" in ended.stats) == ("nan", None, False)


def test_evaluations_within_an_epoch_and_left_out_time_are_not_training(script: Script) -> None:
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


def test_a_reported_batch_size_replaces_the_counted_one_in_each_epoch(script: Script) -> None:
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
        assert not any("data_seconds" in epoch for epoch in ended.told("epoch_stop"))  # `timed` was not used


@pytest.mark.slow
def test_the_package_is_imported_without_torch_and_frameworks() -> None:
    look = (
        "import sys, trainkit, trainkit.files, trainkit.sources, trainkit.arguments, trainkit.archives,"
        " trainkit.prepare, trainkit.parent;"
        "print(sorted({name.partition('.')[0] for name in sys.modules} &"
        " {'torch', 'transformers', 'accelerate', 'pytorch_lightning', 'runner'}));"
        "from trainkit import running; print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True False"]
