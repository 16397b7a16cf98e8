"""A temporary folder is removed after its block, wherever a signal's exception comes."""

import sys
import tempfile
from types import FrameType
from typing import Any

import pytest

from runner.core.temporary import temporary_folder


class _Signalled(BaseException):
    """The exception of a signal handler."""


def test_an_exception_at_the_start_of_any_call_leaves_no_folder(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    number = 0
    while _raises_at_call(number):
        assert [*scratch.iterdir()] == [], number
        number += 1
    assert number > 10


def _raises_at_call(number: int) -> bool:
    """Create and remove a folder, raising at the given function call; return whether it was reached."""

    def trace(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal number
        number -= event == "call"
        if number < 0:
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
