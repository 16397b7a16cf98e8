"""A folder for temporary files is gone after its block, wherever an exception comes."""

import sys
import tempfile
from types import FrameType
from typing import Any

import pytest

from runner.core.temporary import temporary_folder


class _Signalled(BaseException):
    """What the handler of a signal raises."""


def test_an_exception_at_the_start_of_any_call_leaves_no_folder(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised = 0
    for number in range(1000):
        scratch = tmp_path_factory.mktemp("scratch")
        monkeypatch.setattr(tempfile, "tempdir", str(scratch))
        if not _raises_at_call(number):
            break
        raised += 1
        assert list(scratch.iterdir()) == [], number
    assert 10 < raised < 1000


def _raises_at_call(number: int) -> bool:
    """Make and remove a folder, with an exception at the call of that number; return whether it came."""
    left = [number]

    def trace(_frame: FrameType, event: str, _argument: Any) -> None:
        left[0] -= event == "call"
        if left[0] < 0:
            sys.settrace(None)
            raise _Signalled

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with temporary_folder("test") as folder:
            (folder / "file").touch()
    except _Signalled:
        return True
    finally:
        sys.settrace(before)
    return False
