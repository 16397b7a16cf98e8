"""While signals are taken, what Python drops is shown as ever, unless it is the signal's own exception."""

import pytest

from runner.execution.signals import taken


class Gone:
    """Something that cannot be removed without an error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __del__(self) -> None:
        raise self.error


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_any_other_error_within_del_is_still_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda what: seen.append(what.exc_value))
    error = ValueError("in del")
    with taken():
        Gone(error)
    assert seen == [error]
