"""The cause of a failure: torch's error file, the last event, the exceptions in what was printed."""

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

TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
"""


def test_the_exceptions_from_which_the_last_one_followed_belong_to_it() -> None:
    first = f"{TRACEBACK}OSError: [Errno 28] No space left on device\n"
    link = "\nDuring handling of the above exception, another exception occurred:\n\n"
    chained = read(f"{first}{link}{TRACEBACK}RuntimeError: not saved".splitlines())
    assert chained.cause == "RuntimeError: not saved"
    assert "OSError: [Errno 28] No space left on device" in chained.lines
    apart = read(f"{first}caught, once more\n{TRACEBACK}RuntimeError: not saved".splitlines())
    assert "OSError: [Errno 28] No space left on device" not in apart.lines


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (f"epoch 1\n{TRACEBACK}KeyError: 'lr'\nbye", "KeyError: 'lr'"),
        (f"{TRACEBACK}    assert n % 2 == 0\n           ^^^^^\nAssertionError", "AssertionError: assert n % 2 == 0"),
        (f"{TRACEBACK}AssertionError: \nThe driver is old", "AssertionError: The driver is old"),
        (f"{TRACEBACK}a.DistBackendError: NCCL error\nx\nLast error:\nno interface", "no interface"),
        ("Fatal Python error: Bus error\n\nThread 0x1:", "Fatal Python error: Bus error"),
        ("train.py: error: unrecognized arguments: --x", "train.py: error: unrecognized arguments: --x"),
        ("terminate called after throwing an instance of 'c10::Error'\n  what():  no\nframe #0: f", "no"),
        (f"{TRACEBACK}ValueError: why\nException ignored in: <f>\n{TRACEBACK}TypeError: at the end", "ValueError: why"),
    ],
)
def test_the_cause_is_read_from_each_way_to_say_it(text: str, cause: str | None) -> None:
    found = read(text.splitlines()).cause
    assert found == cause or (found and found.endswith(f"last error: {cause}"))


def error_file(message: str) -> bytes:
    """An error file as torch 2.3 to 2.11 write it."""
    extra = {"py_callstack": f"{TRACEBACK}{message}\n", "timestamp": "1763712000"}
    return json.dumps({"message": {"message": message, "extraInfo": extra}}).encode()


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b'{"message": "Signal 9 received", "timestamp": 3}', "Signal 9 received"),
        *((data, None) for data in (b"{", b'{"message": 3}', b'{"message":' * 9_000)),
    ],
)
def test_torchs_error_file_is_read_and_any_other_says_nothing(tmp_path: Path, data: bytes, cause: str | None) -> None:
    (tmp_path / "error.json").write_bytes(data)
    assert read_error_file(tmp_path / "error.json").cause == cause


def test_the_error_file_is_kept_and_is_the_cause(tmp_path: Path, make: Make) -> None:
    folder = begin(tmp_path, make.launch(), "", "")
    worker = folder.node(0) / "none_x" / "attempt_0" / "0"
    worker.mkdir(parents=True)
    error = error_file("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    (worker / "stderr.log").write_text("something else\n")
    (worker / "error.json").write_bytes(error)
    folder.agent(0).write_text(CHILD_ERROR.format(first=0, rank=0, code=1, time=1))
    outcome = Outcome(ended="2026-11-21T00:01:00+00:00", wall_seconds=1.0, exits=[NodeExit(0, 1)])
    found: Any = collect(folder, folder.launch(), outcome).failure
    assert found.cause.startswith("torch.cuda.OutOfMemoryError: CUDA out of memory.")
    assert (found.hint, found.last_lines) == ("cuda-out-of-memory", ["something else"])
    folder.keep_outcome(outcome)
    assert collect(folder, folder.launch(), outcome).failure == found
    assert (folder.raw / "node0-rank0.error.json").read_bytes() == error
    assert not folder.node(0).exists()


def test_without_an_error_file_the_last_event_says_why(tmp_path: Path, make: Make) -> None:
    stop = told("run_stop", status="aborted", error="ModuleNotFoundError: No module named 'x'", rank=0, seq=0)
    found = failure(tmp_path, make, [(0, 1, 1)], {}, HERE, stdout=stop)
    assert (found.cause, found.hint) == ("ModuleNotFoundError: No module named 'x'", "missing-module")


@pytest.mark.parametrize(
    ("exact", "said"),
    [
        (["0x1p+0", "nan", "nan"], "NaN since epoch 2"),
        (["0x1p+0", "inf", "nan"], "infinite since epoch 2"),
        (["0x1p+0", "0x1p+0", "0x1p+0"], None),
    ],
)
def test_a_loss_that_became_nan_is_a_doubt(exact: list[str], said: str | None) -> None:
    rows = [
        {"epoch_num": number, "loss": None if text in ("nan", "inf") else 1.0, "loss_hex": text}
        for number, text in enumerate(exact, 1)
    ]
    assert list(nan_since(rows, [])) == ([f"nan-loss: the training loss is {said}"] if said else [])


@pytest.mark.parametrize(
    ("because", "cause", "hint"),
    [
        ("raw/node0-agent.log: No space left on device", "raw/node0-agent.log: No space left on device", "disk-full"),
        ("interrupted", None, None),
    ],
)
def test_a_run_that_could_not_be_followed_says_so_itself(
    tmp_path: Path, make: Make, because: str, cause: str | None, hint: str | None
) -> None:
    found = failure(tmp_path, make, [], {}, [NodeExit(0, 1, stopped=True)], because=because)
    assert (found.cause, found.hint) == (cause, hint)


IN_LOG = 'Traceback (most recent call last):\n  File "train.py", line 31, in main\n    step()\n'
BANNER = IN_LOG + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n=====\ntrain.py FAILED\n"
ENDED = "E1126 18:08:08.929000 140 api.py:826] failed (exitcode: 1) local_rank: 0 (pid: 19465) of binary: python\n"


def by(rank: int, text: str) -> str:
    """Prefix what a rank raises, as torch does."""
    return "".join(f"[rank{rank}]: {line}\n" for line in f"{IN_LOG}{text}".splitlines())


LOST = by(0, "RuntimeError: [pair.cc:534] Connection closed by peer [127.0.0.1]:34461")
ECC = by(1, "RuntimeError: simulated ECC error")
CHAIN = f"OSError: No space left on device\n\nDuring handling of the above exception, another\n\n{IN_LOG}KeyError: 'x'"


def of_log(text: str) -> dict[str, Any]:
    reading = read_stream(io.BytesIO(text.encode()).read)
    return explained(summary("-", reading), reading.tail)


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        (LOST + ECC + ENDED + BANNER, "rank 1: RuntimeError: simulated ECC error (line 8)", None),
        (ECC + LOST + ENDED + ECC + ENDED + BANNER, "error (line 4)", None),
        (ECC + by(0, CHAIN) + ENDED + BANNER, "rank 1: RuntimeError: simulated ECC error (line 4)", None),
        (by(2, CHAIN) + ENDED + BANNER, "rank 2: KeyError: 'x' (line 11)", "disk-full"),
    ],
    ids=["a victim first", "a restart", "another chain", "a chain"],
)
def test_the_exception_of_a_rank_is_named_with_its_hint(text: str, says: str, hint: str | None) -> None:
    found = of_log(text)
    assert (found["status"], found["hint"]) == ("failed", hint)
    assert says in found["notes"][0]
    assert not any("ChildFailedError" in note or "Traceback" in note for note in found["notes"])


def test_a_log_that_did_not_fail_has_no_hint() -> None:
    assert of_log("CUDA out of memory, tried again\nEpoch 1/1, Loss: 0.5\n")["hint"] is None
