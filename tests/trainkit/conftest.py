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


def good(ended: Ended) -> Ended:
    assert ended.code == 0, ended.stderr
    for rank in {event["metadata"]["rank"] for event in ended.events}:
        own = [event for event in ended.events if event["metadata"]["rank"] == rank]
        assert [event["metadata"]["seq"] for event in own] == list(range(len(own)))
        assert (own[0]["key"], own[-1]["key"]) == ("run_start", "run_stop")
        assert own[-1]["metadata"]["status"] == "success"
    return ended
