"""How a run on a host ended is known once its supervisor says so, whatever else goes wrong there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from runner.records.brought import Brought
from runner.targets.ssh.node import RemoteNode
from runner.targets.ssh.openssh import OpenSsh
from runner.targets.ssh.session import HostError, LostError, Session
from tests.support.patience import patient
from tests.support.records import Make

RUN = {"folder": "/cache/kit", "run": "20261121T000000Z-ssh-0badcafe-node0"}


class Ended:
    """A session with a host whose supervisor has ended, and that does not remove the run's folder."""

    def __init__(self, error: HostError) -> None:
        self.error = error

    def __enter__(self) -> Ended:  # noqa: PYI034 - Self is Python 3.11's
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def send(self, do: str, **words: Any) -> None:
        del words
        assert do == "follow"

    def receive(self, _seconds: float) -> tuple[dict[str, Any], bytes]:
        return {"answer": {"ended": {"code": 0, "why": ""}}}, b""

    def answer(self, frame: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = frame["answer"]
        return answer

    def ask(self, do: str, **words: Any) -> dict[str, Any]:
        assert (do, words) == ("remove", RUN)
        raise self.error


@pytest.mark.parametrize(
    "error",
    [
        HostError(f"host a: /cache/kit/runs/{RUN['run']}/logs: Directory not empty"),
        LostError("host a: the connection was closed"),
    ],
)
def test_a_run_that_has_ended_well_did_so_also_if_its_folder_stays_there(
    tmp_path: Path, make: Make, error: HostError
) -> None:
    brought = Brought(make.run(tmp_path), 0)
    node = RemoteNode(0, cast(OpenSsh, None), "a", "python3", RUN, "mark", brought)
    node.begin(cast(Session, Ended(error)))
    node.wait(patient(10))
    assert (node.describe().code, node.describe().why, node.failed) == (0, None, False)
    assert node.has_answered
    assert list(node.notes) == [f"{error}: left behind there; rm -r /cache/kit/runs/{RUN['run']}"]
