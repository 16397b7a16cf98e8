"""Hints: each well-known failure is recognised in real logs, and nothing else is; docs/failures.md names them."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from runner.core import yaml_reader
from runner.records import cause
from runner.records.folder import begin
from runner.records.parse import collect
from runner.records.schema import NodeExit, Outcome
from tests.records.test_collect import CHILD_ERROR
from tests.support.patience import patient, quick
from tests.support.records import Make

ROOT = Path(__file__).resolve().parents[2]
LOGS = Path(__file__).parent / "failures"
INDEX: list[dict[str, Any]] = yaml_reader.read(LOGS / "index.yaml").values["logs"]
FOREIGN = ROOT / "tests" / "logs" / "logs"
PAGE = ROOT / "docs" / "failures.md"


def failure_of(place: Path, make: Make, log: Path, *, code: int = 1, agent: bool = False, **ended: Any) -> Any:
    """The failure of a run, one process of which printed a log; or its launcher, if it never got a process."""
    launch = make.launch()
    folder = begin(place, launch, "", "")
    if agent:
        shutil.copy(log, folder.agent(0))
    else:
        shutil.copy(log, folder.raw / "node0-rank0.stderr")
        folder.agent(0).write_text("" if "why" in ended else CHILD_ERROR.format(first=0, rank=0, code=code, time=1))
    node = NodeExit(0, None if "why" in ended else 1, **ended)
    return collect(folder, launch, Outcome(ended="2026-11-21T00:01:00+00:00", wall_seconds=1.0, exits=[node])).failure


@pytest.mark.parametrize("entry", INDEX, ids=[entry["log"] for entry in INDEX])
def test_a_real_log_gets_its_hint_and_no_other(tmp_path: Path, make: Make, entry: dict[str, Any]) -> None:
    ended = {"why": entry["why"]} if "why" in entry else {}
    log, code = LOGS / f"{entry['log']}.log", -entry.get("signal", -1)
    assert (failure_of(tmp_path, make, log, code=code, agent=entry.get("agent", False), **ended).hint or "") == entry[
        "hint"
    ]


def test_every_hint_has_a_real_log_and_every_log_an_entry() -> None:
    assert {entry["hint"] for entry in INDEX} - {""} == set(cause.hints()) - {"terminated"}
    assert sorted(path.stem for path in LOGS.glob("*.log")) == sorted(entry["log"] for entry in INDEX)
    assert all(entry["from"].startswith(("https://github.com/", "made with torch ")) for entry in INDEX)


# The samples of other people's programs that failed, and what each has to be.
FAILED = {
    "huggingface-failed": "shared-memory",
    "imagenet-oom": "cuda-out-of-memory",
    "nccl-timeout": "collective-timeout",
    # All ranks in one log, in which the last exception is that of a rank that lost another.
    "mnist-failed-kill": "lost-peer",
    "mnist-failed-oom": "lost-peer",
    "mnist-failed-raise": "lost-peer",
}


@pytest.mark.parametrize("log", sorted(FOREIGN.glob("*.log")), ids=lambda path: path.stem)
def test_logs_of_other_programs_get_no_false_hint(tmp_path: Path, make: Make, log: Path) -> None:
    assert failure_of(tmp_path, make, log).hint == FAILED.get(log.stem)


def test_a_container_that_ran_out_of_memory_says_so_whatever_was_printed(tmp_path: Path, make: Make) -> None:
    found = failure_of(tmp_path, make, LOGS / "killed.log", code=-9, out_of_memory=True)
    assert (found.cause, found.hint) == ("the container ran out of memory", "out-of-memory")


def test_a_process_that_was_killed_is_not_judged_by_what_it_printed_before(tmp_path: Path, make: Make) -> None:
    log = tmp_path / "log"
    log.write_text("Permission denied: no cache\nTraceback (most recent call last):\nValueError: caught\n")
    killed = failure_of(tmp_path / "a", make, log, code=-9)
    assert (killed.cause, killed.hint) == (None, "killed")
    assert failure_of(tmp_path / "b", make, log, code=-15).hint == "terminated"


def test_a_warning_before_an_exception_of_its_own_is_no_hint(tmp_path: Path, make: Make) -> None:
    log = tmp_path / "log"
    log.write_text(
        "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11000).\n"
        "Permission denied: '/cache', going on without\n"
        "[W socket.cpp:663] [c10d] The client socket has failed to connect to [node0]:23456 (errno: 111).\n"
        "Traceback (most recent call last):\n"
        '  File "train.py", line 1, in <module>\n'
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x4 and 3x2)\n"
    )
    found = failure_of(tmp_path, make, log)
    assert (found.cause, found.hint) == ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x4 and 3x2)", None)


HOSTILE = [
    "socketStartConnect: Connect to " + "a" * 16_000,
    "The IPv4 network addresses of " * 500,
    "Traceback (most recent call last):\n" * 450,
    "x.y_" * 4_000,
]


def test_a_hostile_log_takes_no_longer_than_another(tmp_path: Path, make: Make) -> None:
    cause.hints()
    for number, text in enumerate(HOSTILE):
        log = tmp_path / f"{number}.log"
        log.write_text(f"{text}\n{text[:4000]}\nTraceback (most recent call last):\nRuntimeError: {text}\n")
        with quick(patient(0.5)):
            failure_of(tmp_path / str(number), make, log)


def test_the_document_on_failures_names_every_hint() -> None:
    _, _, listed = PAGE.read_text("utf-8").partition("Known are:\n")
    names = listed.partition("\n\n##")[0]
    assert re.findall(r"`([\w-]+)`", names) == list(cause.hints())
