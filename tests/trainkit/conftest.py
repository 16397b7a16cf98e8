"""A script of one's own, run in a folder of its own."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from tests.experiments.conftest import Ended, start

Script = Callable[..., Ended]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Run a script in a folder of its own, in so many processes, or as plain Python does."""

    def script(text: str, processes: int | None = None, *words: str, **env: str) -> Ended:
        path = tmp_path / "train.py"
        path.write_text(dedent(text))
        return start([str(path), *words], processes, env)

    return script
