"""One server for all checks of a session."""

from collections.abc import Iterator

import pytest

from runner.tools.check import processes
from tests.tools.check.warm import WarmServer


@pytest.fixture(scope="session")
def server() -> Iterator[WarmServer]:
    """A process that has torch imported."""
    with WarmServer() as running:
        yield running


@pytest.fixture
def forked(server: WarmServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the processes of a check as forks of the server."""
    monkeypatch.setattr(processes, "start", server.start)
