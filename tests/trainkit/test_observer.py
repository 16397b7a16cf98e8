"""The observer's figures for many styles of training, compared with the trainings' own counts."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.targets import local
from runner.targets.clean_environment import clean_environment
from tests.support.projects import ROOT
from tests.support.slow import slow_but
from tests.trainkit.observed.scripts import SCRIPTS

MARK = ":::MLLOG "
Runs = Callable[[str, Path], int]


def environment(*, observed: bool) -> dict[str, str]:
    hooks = {"KIT_OBSERVE": str(ROOT / "trainkit" / "observer")} if observed else {}
    place = {"PYTHONPATH": f"{local.HOOKS}:{ROOT}", "OMP_NUM_THREADS": "1", "RANK": "0", "KIT_SEEN": "/dev/null/none"}
    return {**clean_environment(), **place, **hooks}


def zygote(*, observed: bool) -> Iterator[Runs]:
    words = [sys.executable, "-m", "tests.trainkit.observed.zygote"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    with subprocess.Popen(words, env=environment(observed=observed), **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def run(name: str, folder: Path) -> int:
            folder.mkdir(exist_ok=True)
            print(name, folder, file=process.stdin, flush=True)
            return int(next(process.stdout))

        yield run
        process.stdin.close()


@pytest.fixture(scope="module")
def watched() -> Iterator[Runs]:
    yield from zygote(observed=True)


@pytest.fixture(scope="module")
def bare() -> Iterator[Runs]:
    yield from zygote(observed=False)


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line[len(MARK) :])["metadata"] for line in text.splitlines() if line.startswith(MARK)]


@pytest.mark.parametrize("name", slow_but([name for name in SCRIPTS if not name.startswith("trainer_")], SCRIPTS))
def test_a_count_is_exact_or_open_and_the_weights_do_not_change(
    name: str, watched: Runs, bare: Runs, tmp_path: Path
) -> None:
    truths = []
    for run, folder in ((bare, tmp_path / "bare"), (watched, tmp_path / "watched")):
        assert run(name, folder) == 0, (folder / "stderr").read_text()
        truths.append(json.loads((folder / "truth.json").read_text()))
    truth = truths[0]
    assert truth == truths[1]
    text = (folder / "stdout").read_text()
    assert all(len(line) < 4096 for line in text.splitlines())
    last = {line["process"]: line for line in lines_of(text)}
    assert all(line["is_last"] for line in last.values())
    seen = max(last.values(), key=lambda line: line["steps"] or 0)
    for figure, value in truth.items():
        if figure in seen:
            assert seen[figure] == value, (figure, seen)
            if value is None and figure != "dataset_samples":
                assert seen["unknown"][figure]


def test_a_rank_that_waits_for_a_slow_one_shows_it_in_its_exchange(watched: Runs, tmp_path: Path) -> None:
    assert watched("two_ranks_of_which_one_is_slow", tmp_path / "run") == 0
    lines = lines_of((tmp_path / "run" / "stdout").read_text())
    waits = {line["rank"]: line["exchange_seconds_a_backward"] for line in lines if line["steps"]}
    assert waits[0] > 0.02
    assert waits[1] < waits[0] / 2


TRAINING = """
import os, sys, torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(40, 4)), 4)
def epoch():
    for (batch,) in data:
        optimizer.zero_grad(); model(batch).mean().backward(); optimizer.step()
"""


Script = Callable[[str], tuple[int, str, list[dict[str, Any]]]]


@pytest.fixture
def run(watched: Runs, tmp_path: Path) -> Script:
    """Run a script under the observer; return its exit code, its other output, and the observer's lines."""

    def run(text: str) -> tuple[int, str, list[dict[str, Any]]]:
        (tmp_path / "train.py").write_text(text)
        return watched(str(tmp_path / "train.py"), tmp_path), *said_in(tmp_path)

    return run


def said_in(folder: Path) -> tuple[str, list[dict[str, Any]]]:
    text = (folder / "stdout").read_text()
    return "\n".join(line for line in text.splitlines() if MARK not in line).strip(), lines_of(text)


def run_alone(script: str, folder: Path, **variables: str) -> tuple[str, list[dict[str, Any]]]:
    """Run a script in its own process; return its output and the observer's lines."""
    with (folder / "stdout").open("wb") as stdout:
        env = {**environment(observed=True), **variables}
        subprocess.run([sys.executable, "-c", script], cwd=folder, env=env, stdout=stdout, check=True)
    return said_in(folder)


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("os._exit(7)", 7),
        ("1 / 0", 1),
        ("sys.stdout.close(); os.close(1)", 0),
        ("import time; time.sleep(1.1); epoch(); os.kill(os.getpid(), 9)", -9),
    ],
)
def test_figures_are_kept_however_a_program_ends(end: str, code: int, run: Script) -> None:
    status, said, lines = run(f"{TRAINING}\nepoch()\n{end}")
    assert (status, said) == (code, "")
    assert (lines[-1]["steps"], lines[-1]["is_last"]) == ((10, True) if code != -9 else (11, False))


GRADIENT = "import torch; torch.ones(1, requires_grad=True).sum().backward()"


def test_another_sitecustomize_runs_too(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("print('own')")
    said, lines = run_alone(GRADIENT, tmp_path, PYTHONPATH=f"{local.HOOKS}:{tmp_path / 'own'}")
    assert said == "own"
    assert lines[-1]["backwards"] == 1


def test_a_program_without_torch_prints_nothing_more(tmp_path: Path) -> None:
    script = "import json, sys; print('torch' in sys.modules, 'kit_observer' in sys.modules)"
    assert run_alone(script, tmp_path) == ("False False", [])


def test_a_program_that_reports_events_itself_is_left_alone(run: Script) -> None:
    assert run(f"{TRAINING}\nimport trainkit.event_log\nepoch()") == (0, "", [])


def test_the_output_that_a_parent_reads_from_its_child_does_not_change(run: Script) -> None:
    words = f"[sys.executable, '-c', {GRADIENT + '; print(1)'!r}]"
    _, said, lines = run(f"import subprocess, sys; print(subprocess.check_output({words}))")
    assert said == r"b'1\n'"
    assert [line["backwards"] for line in lines] == [0]


@pytest.mark.parametrize("method", slow_but(["fork"], ["fork", "spawn"]))
def test_steps_and_groups_of_children_are_counted_by_rank(method: str, run: Script, tmp_path: Path) -> None:
    script = f"""{TRAINING}
def work(rank, path):
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=2)
    global model, optimizer
    groups = [dist.new_group([rank]) for rank in range(2)]
    if rank == 1:
        model = torch.nn.parallel.DistributedDataParallel(model, process_group=groups[1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    epoch()
    dist.all_reduce(torch.ones(1))
    dist.barrier()
if __name__ == "__main__":
    torch.multiprocessing.start_processes(work, ("{tmp_path}/store",), 2, start_method="{method}")
"""
    status, _, lines = run(script)
    assert status == 0
    last = {line["process"]: line for line in lines}.values()
    trained = sorted((line for line in last if line["steps"]), key=lambda line: int(line["rank"]))
    assert [(line["rank"], line["steps"], line["samples"]) for line in trained] == [(0, 10, 40), (1, 10, 40)]
    assert {"size": 2, "backend": "gloo", "count": 1} in trained[0]["groups"]
    assert trained[0]["collective_seconds"] > 0
    assert trained[1]["collective_seconds"] is None
    assert "DistributedDataParallel" in trained[1]["unknown"]["collective_seconds"]


def test_without_an_optimizer_calls_of_the_outermost_module_are_counted(run: Script) -> None:
    made = "import torch; model = torch.nn.Sequential(torch.nn.Linear(2, 2)); torch.optim.SGD(model.parameters(), 1)"
    _, _, lines = run(f"{made}; [model(torch.ones(1, 2)) for _ in range(30)]")
    assert (lines[-1]["forwards"], lines[-1]["steps"]) == (30, 0)
    assert lines[-1]["step_seconds"]["median"] > 0
