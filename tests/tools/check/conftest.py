"""Checks whose processes are forked from one that has torch imported, which saves most of their time."""

import sys

import pytest

from tests.support import fork_server


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the fork server start the processes of a check."""
    monkeypatch.setattr(sys, "executable", fork_server.command("python"))
