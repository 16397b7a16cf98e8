"""Runs of scripts in a folder of their own."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from tests.experiments.conftest import Ended, start

Script = Callable[..., Ended]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Run a script with so many ranks, or as one plain process."""

    def script(text: str, processes: int | None = None, *words: str, **env: str) -> Ended:
        path = tmp_path / "train.py"
        path.write_text(dedent(text))
        return start([str(path), *words], processes, **env)

    return script
