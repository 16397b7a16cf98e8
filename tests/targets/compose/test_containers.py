"""What a container prints is kept byte for byte; a disk that is full ends the run and not only a thread."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.targets.compose.containers import Followed


class Container:
    """What the followed container does, as docker's own class has it."""

    def __init__(self, chunks: list[bytes], state: dict[str, Any], fault: Exception | None = None) -> None:
        self.chunks, self.fault = chunks, fault
        self.attrs = {"State": state}

    def logs(self, *, stream: bool, follow: bool) -> Iterator[bytes]:
        assert stream
        assert follow
        yield from self.chunks
        if self.fault:
            raise self.fault

    def wait(self) -> None:
        pass

    reload = wait


def test_all_that_is_printed_is_kept_in_full(tmp_path: Path) -> None:
    output = (tmp_path / "agent.log").open("wb")
    followed = Followed(1, Container([b"one\ntw", b"x" * 3_000_000], {"ExitCode": 3}), output)  # type: ignore[arg-type]
    followed.wait(10)
    assert followed.failed
    assert followed.exit
    assert (followed.exit.node, followed.exit.code) == (1, 3)
    assert (tmp_path / "agent.log").read_bytes() == b"one\ntw" + b"x" * 3_000_000


def test_a_disk_that_is_full_is_raised_where_the_run_is_followed_and_the_exit_code_is_seen() -> None:
    output = Path("/dev/full").open("wb")  # noqa: SIM115 - the thread closes it
    followed = Followed(0, Container([b"one\n"] * 3, {"ExitCode": 0}), output)  # type: ignore[arg-type]
    followed.wait(10)
    assert followed.ended
    assert not followed.failed
    with pytest.raises(OSError, match="No space left") as full:
        followed.raise_failure()
    assert full.value.errno == errno.ENOSPC


@pytest.mark.parametrize("fault", [ConnectionError("engine \x1b[2J gone"), ValueError("a chunk that makes no sense")])
def test_a_connection_that_breaks_in_any_way_ends_the_node_and_is_said_in_its_log(
    tmp_path: Path, fault: Exception
) -> None:
    output = (tmp_path / "agent.log").open("wb")
    followed = Followed(0, Container([b"one\n"], {}, fault), output)  # type: ignore[arg-type]
    followed.wait(10)
    assert followed.exit
    assert (followed.exit.code, followed.exit.signal, followed.failed) == (None, None, True)
    text = (tmp_path / "agent.log").read_text()
    assert text.startswith("one\nrunner: the container cannot be followed any more: ")
    assert "\x1b" not in text
    assert threading.active_count() < 50
