"""Hints: each well-known failure is recognised in real logs, and nothing else is."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from runner.core import yaml_reader
from runner.records import cause
from runner.records.folder import begin
from runner.records.parse import collect
from runner.records.schema import NodeExit, Outcome
from tests.records.test_collect import CHILD_ERROR, ENDED
from tests.support.patience import patient, quick
from tests.support.records import Make

ROOT = Path(__file__).resolve().parents[2]
LOGS = Path(__file__).parent / "failures"
INDEX: list[dict[str, Any]] = yaml_reader.read(LOGS / "index.yaml").values["logs"]


def failure_of(place: Path, make: Make, log: Path, *, code: int = 1, agent: bool = False, **ended: Any) -> Any:
    """Return the failure of a run; one process, or the launcher if it started none, printed a log."""
    folder = begin(place, make.launch(), "", "")
    if agent:
        shutil.copy(log, folder.agent(0))
    else:
        shutil.copy(log, folder.raw / "node0-rank0.stderr")
        folder.agent(0).write_text("" if "why" in ended else CHILD_ERROR.format(first=0, rank=0, code=code, time=1))
    node = NodeExit(0, None if "why" in ended else 1, **ended)
    return collect(folder, folder.launch(), Outcome(ended=ENDED, wall_seconds=1.0, exits=[node])).failure


@pytest.mark.parametrize("entry", INDEX, ids=[entry["log"] for entry in INDEX])
def test_a_real_log_gets_its_hint_and_no_other(tmp_path: Path, make: Make, entry: dict[str, Any]) -> None:
    log, code = LOGS / f"{entry['log']}.log", -entry.get("signal", -1)
    ended = {name: entry[name] for name in ("why", "agent") if name in entry}
    assert (failure_of(tmp_path, make, log, code=code, **ended).hint or "") == entry["hint"]


def test_every_hint_has_a_real_log_and_every_log_an_entry() -> None:
    assert {entry["hint"] for entry in INDEX} - {""} == set(cause.hints()) - {"terminated"}
    assert sorted(path.stem for path in LOGS.glob("*.log")) == sorted(entry["log"] for entry in INDEX)


# Other people's programs that failed.
FAILED = {
    "huggingface-failed": "shared-memory",
    "imagenet-oom": "cuda-out-of-memory",
    "nccl-timeout": "collective-timeout",
    # All ranks in one log, in which the last exception is that of a rank that lost another.
    "mnist-failed-kill": "lost-peer",
    "mnist-failed-oom": "lost-peer",
    "mnist-failed-raise": "lost-peer",
}


@pytest.mark.parametrize("log", sorted((ROOT / "tests/logs/logs").glob("*.log")), ids=lambda path: path.stem)
def test_logs_of_other_programs_get_no_false_hint(tmp_path: Path, make: Make, log: Path) -> None:
    assert failure_of(tmp_path, make, log).hint == FAILED.get(log.stem)


DENIED = "Permission denied: '/cache', going on without\n"
WARNED = (
    "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11000).\n"
    "[W socket.cpp:663] [c10d] The client socket has failed to connect to [node0]:23456 (errno: 111).\n"
)
ERROR = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x4 and 3x2)"


@pytest.mark.parametrize(
    ("code", "ended", "reason", "hint"),
    [
        (1, {}, ERROR, None),
        (-9, {}, None, "killed"),
        (-15, {}, None, "terminated"),
        (-9, {"out_of_memory": True}, "the container ran out of memory", "out-of-memory"),
    ],
)
def test_a_warning_gives_no_hint_and_a_silent_end_is_not_judged_by_earlier_output(
    tmp_path: Path, make: Make, code: int, ended: dict[str, bool], reason: str | None, hint: str | None
) -> None:
    log = tmp_path / "log"
    log.write_text(f'{WARNED}{DENIED}Traceback (most recent call last):\n  File "train.py", line 1\n{ERROR}\n')
    found = failure_of(tmp_path, make, log, code=code, **ended)
    assert (found.cause, found.hint) == (reason, hint)


HOSTILE = [
    "socketStartConnect: Connect to " + "a" * 16_000,
    "The IPv4 network addresses of " * 500,
    "Traceback (most recent call last):\n" * 450,
    "x.y_" * 4_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:9])
def test_a_hostile_log_takes_no_longer_than_another(tmp_path: Path, make: Make, text: str) -> None:
    cause.hints()
    log = tmp_path / "log"
    log.write_text(f"{text}\n{text[:4000]}\nTraceback (most recent call last):\nRuntimeError: {text}\n")
    with quick(patient(0.5)):
        failure_of(tmp_path, make, log)
