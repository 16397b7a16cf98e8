"""Every test of the report has a cache of its own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the folder in which the cache lies."""
    folder = tmp_path / "the cache? #1 %41"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Name a results folder, which is not there yet."""
    return tmp_path / "results"
