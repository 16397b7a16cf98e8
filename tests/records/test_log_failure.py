"""What `runner collect` says of a log that failed: the rank's own exception, restarts, and the hint."""

import io
from typing import Any

import pytest

from runner.logs import sources
from runner.records.cause import explained

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 31, in main\n    step()\n'
BANNER = TRACE + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n=====\ntrain.py FAILED\n"
ENDED = "E1126 18:08:08.929000 140 api.py:826] failed (exitcode: 1) local_rank: 0 (pid: 19465) of binary: python\n"


def of(rank: int, text: str) -> str:
    """Prefix what a rank raises, as torch does."""
    return "".join(f"[rank{rank}]: {line}\n" for line in f"{TRACE}{text}".splitlines())


LOST = of(0, "RuntimeError: [pair.cc:534] Connection closed by peer [127.0.0.1]:34461")
ECC = of(1, "RuntimeError: simulated ECC error")
CHAIN = f"OSError: No space left on device\n\nDuring handling of the above exception, another\n\n{TRACE}KeyError: 'x'"


def collected(text: str) -> dict[str, Any]:
    return sources.of_stream(io.BytesIO(text.encode()).read, sources.dialects_with([]), explained=explained)


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        (LOST + ECC + ENDED + BANNER, "rank 1: RuntimeError: simulated ECC error (line 8)", None),
        (ECC + LOST + ENDED + ECC + ENDED + BANNER, "error (line 4, and again in line 13)", None),
        (ECC + of(0, CHAIN) + ENDED + BANNER, "rank 1: RuntimeError: simulated ECC error (line 4)", None),
        (of(2, CHAIN) + ENDED + BANNER, "rank 2: KeyError: 'x' (line 11)", "disk-full"),
        (of(0, "KeyError: 'getpwuid(): uid not found: 7'"), "rank 0: KeyError: 'getpwuid", "no-user-name"),
        (f"{TRACE}ValueError: no\n", "ValueError: no (line 4)", None),
    ],
    ids=["a victim first", "a restart", "another chain", "a chain", "a user without a name", "no ranks"],
)
def test_the_exception_of_a_rank_is_named_with_its_hint(text: str, says: str, hint: str | None) -> None:
    found = collected(text)
    assert (found["status"], found["hint"]) == ("failed", hint)
    assert says in found["notes"][0]
    assert not any("ChildFailedError" in note or "Traceback" in note for note in found["notes"])


def test_a_log_that_did_not_fail_has_no_hint() -> None:
    assert collected("CUDA out of memory, tried again\nEpoch 1/1, Loss: 0.5\n")["hint"] is None
