"""Where the tests of the report lay their runs."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Name a results folder, which is not there yet."""
    return tmp_path / "results"
