"""Signals that come where Python raises nothing: they are neither lost nor seen as a traceback."""

from __future__ import annotations

import signal

import pytest

from runner.execution.signals import taken


class Gone:
    """Something whose end is the moment of the signal."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error

    def __del__(self) -> None:
        if self.error:
            raise self.error
        signal.raise_signal(signal.SIGINT)


def test_a_signal_within_del_shows_nothing_and_is_raised_at_the_next_look(capsys: pytest.CaptureFixture[str]) -> None:
    with taken() as interrupts, interrupts.raising():
        Gone()
        assert interrupts.asked
        with pytest.raises(KeyboardInterrupt):
            interrupts.raise_if_asked()
    assert capsys.readouterr().err == ""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_any_other_error_within_del_is_still_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda what: seen.append(what.exc_value))
    error = ValueError("in del")
    with taken():
        Gone(error)
    assert seen == [error]
