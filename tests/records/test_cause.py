"""The cause of a failure: torch's error file, the last event, the exceptions in the output."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from runner.logs.reading import read_stream
from runner.logs.summary import summary
from runner.records.cause import explained, read, read_error_file
from runner.records.folder import begin
from runner.records.parse import collect, nan_since
from runner.records.schema import NodeExit, Outcome
from tests.records.test_collect import CHILD_ERROR, HERE, failure, told
from tests.support.records import Make

TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n'
CHAINED = "\nDuring handling of the above exception, another exception occurred:\n\n"


def test_chained_exceptions_belong_to_the_last_one() -> None:
    for between, is_chained in ((CHAINED, True), ("caught, once more\n", False)):
        found = read(f"{TRACEBACK}OSError: full\n{between}{TRACEBACK}RuntimeError: not saved".splitlines())
        assert (found.cause, "OSError: full" in found.lines) == ("RuntimeError: not saved", is_chained)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (f"epoch 1\n{TRACEBACK}KeyError: 'lr'\nbye", "KeyError: 'lr'"),
        (f"{TRACEBACK}    assert n % 2 == 0\n           ^^^^^\nAssertionError", "AssertionError: assert n % 2 == 0"),
        (f"{TRACEBACK}AssertionError: \nThe driver is old", "AssertionError: The driver is old"),
        (f"{TRACEBACK}a.NCCL: error\nx\nLast error:\nno interface", "a.NCCL: error; last error: no interface"),
        ("Fatal Python error: Bus error\n\nThread 0x1:", "Fatal Python error: Bus error"),
        ("train.py: error: unrecognized arguments: --x", "train.py: error: unrecognized arguments: --x"),
        ("terminate called after throwing an instance of 'c10::Error'\n  what():  no\nframe #0: f", "no"),
        (f"{TRACEBACK}ValueError: why\nException ignored in: <f>\n{TRACEBACK}TypeError: at the end", "ValueError: why"),
    ],
)
def test_every_form_of_a_cause_is_read(text: str, cause: str) -> None:
    assert read(text.splitlines()).cause == cause


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b'{"message": "Signal 9 received", "timestamp": 3}', "Signal 9 received"),
        *((data, None) for data in (b"{", b'{"message": 3}', b'{"message":' * 9_000)),
    ],
)
def test_an_invalid_error_file_states_no_cause(tmp_path: Path, data: bytes, cause: str | None) -> None:
    (tmp_path / "error.json").write_bytes(data)
    assert read_error_file(tmp_path / "error.json").cause == cause


def test_the_error_file_of_torch_is_kept_and_states_the_cause(tmp_path: Path, make: Make) -> None:
    folder = begin(tmp_path, make.launch(), "", "")
    worker = folder.node(0) / "none_x" / "attempt_0" / "0"
    worker.mkdir(parents=True)
    message = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    error = json.dumps({"message": {"message": message, "extraInfo": {"timestamp": "1763712000"}}})  # torch 2.3 to 2.11
    (worker / "stderr.log").write_text("something else\n")
    (worker / "error.json").write_text(error)
    folder.agent(0).write_text(CHILD_ERROR.format(first=0, rank=0, code=1, time=1))
    outcome = Outcome(ended="2026-11-21T00:01:00+00:00", wall_seconds=1.0, exits=HERE)
    found: Any = collect(folder, folder.launch(), outcome).failure
    assert (found.cause, found.hint, found.last_lines) == (message, "cuda-out-of-memory", ["something else"])
    folder.keep_outcome(outcome)
    assert collect(folder, folder.launch(), outcome).failure == found
    assert (folder.raw / "node0-rank0.error.json").read_text() == error
    assert not folder.node(0).exists()


def test_without_an_error_file_the_last_event_states_the_cause(tmp_path: Path, make: Make) -> None:
    stop = told("run_stop", status="aborted", error="ModuleNotFoundError: No module named 'x'")
    found = failure(tmp_path, make, "0:1@1", {}, HERE, stdout=stop)
    assert (found.cause, found.hint) == ("ModuleNotFoundError: No module named 'x'", "missing-module")


@pytest.mark.parametrize(
    ("exact", "doubt"),
    [
        ("1 nan nan", "NaN since epoch 2"),
        ("1 inf nan", "infinite since epoch 2"),
        ("nan 1", "NaN in epoch 1"),
        ("1", ""),
    ],
)
def test_a_loss_that_became_nan_is_a_doubt(exact: str, doubt: str) -> None:
    rows = [
        {"epoch_num": number, "loss": 1.0 if text == "1" else None, "loss_hex": text}
        for number, text in enumerate(exact.split(), 1)
    ]
    for what, doubts in (("training", nan_since(rows, [])), ("test", nan_since([], rows))):
        assert list(doubts) == ([f"nan-loss: the {what} loss is {doubt}"] if doubt else [])


def test_a_run_that_could_not_be_followed_states_the_cause_itself(tmp_path: Path, make: Make) -> None:
    stopped, full = [NodeExit(0, 1, stopped=True)], "raw/node0-agent.log: No space left on device"
    found = failure(tmp_path / "a", make, "", {}, stopped, because=full)
    assert (found.cause, found.hint) == (full, "disk-full")
    found = failure(tmp_path / "b", make, "", {}, stopped, because="interrupted")
    assert (found.cause, found.hint) == (None, None)


ENDED = (
    "E1126 18:08:08.929000 140 api.py:826] failed (exitcode: 1) local_rank: 0 (pid: 19465) of binary: python\n"
    f"{TRACEBACK}torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n=====\ntrain.py FAILED\n"
)


def by(rank: int, text: str) -> str:
    """Return a traceback of a rank with torch's prefixes."""
    return "".join(f"[rank{rank}]: {line}\n" for line in f"{TRACEBACK}{text}".splitlines())


LOST = by(0, "RuntimeError: [pair.cc:534] Connection closed by peer [127.0.0.1]:34461")
ECC = by(1, "RuntimeError: simulated ECC error")
CHAIN = f"OSError: No space left on device\n{CHAINED}{TRACEBACK}KeyError: 'x'"


@pytest.mark.parametrize(
    ("text", "note", "hint"),
    [
        # A victim first; after a restart; another rank's chain; a chain; no failure.
        (LOST + ECC, "rank 1: RuntimeError: simulated ECC error (line 8)", None),
        (ECC + LOST + ENDED + ECC, "error (line 4)", None),
        (ECC + by(0, CHAIN), "rank 1: RuntimeError: simulated ECC error (line 4)", None),
        (by(2, CHAIN), "rank 2: KeyError: 'x' (line 11)", "disk-full"),
        ("CUDA out of memory, tried again\nEpoch 1/1, Loss: 0.5\n", "", None),
    ],
)
def test_the_exception_of_a_rank_is_named_with_its_hint(text: str, note: str, hint: str | None) -> None:
    reading = read_stream(io.BytesIO((text + ENDED * bool(note)).encode()).read)
    found = explained(summary("-", reading), reading.tail)
    assert (found["status"] == "failed", found["hint"]) == (bool(note), hint)
    assert note in found["notes"][0] if note else not found["notes"]
    assert not any("ChildFailedError" in note or "Traceback" in note for note in found["notes"])
