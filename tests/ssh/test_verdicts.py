"""Hosts are judged by what each says of itself."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from runner.core import clock
from runner.targets.ssh import preflight
from runner.targets.ssh.hosts import Host
from runner.targets.ssh.openssh import OpenSsh

SAID = {
    "host": "it",
    "python": "3.11.7",
    "torch": "2.3.1",
    "rsync": True,
    "folder": "/cache",
    "free_bytes": 2**31,
    "address": "10.0.0.1",
    "addresses": [["10.0.0.1", "eth0"]],
    "has_data": False,
    "gpus": 0,
}
Examine = Callable[..., list[tuple[str, str, str]]]


@pytest.fixture
def examine(monkeypatch: pytest.MonkeyPatch) -> Examine:
    """Examine hosts that say what is named of each; what is not ok, or a warning."""

    def ask(torch: str = "", **hosts: dict[str, Any]) -> list[tuple[str, str, str]]:
        def connect(_: OpenSsh, host: str, __: str) -> Any:
            said = {**SAID, "time": clock.now(), "port": 1, "trouble": "", **hosts[host]}
            return SimpleNamespace(ask=lambda *_, **__: said, close=lambda: None)

        monkeypatch.setattr(preflight, "connect", connect)
        need = preflight.Need("/opt/python", torch, "", "", "", 0)
        found = preflight.Examination(OpenSsh(), [Host(name) for name in hosts], need, before_start=False)
        found.run()
        assert all(verdict.mend for verdict in found.verdicts if verdict.state != "ok")
        return [(verdict.host, verdict.state, verdict.seen) for verdict in found.verdicts if verdict.state != "ok"]

    return ask


def test_another_torch_than_this_machines_is_wrong_and_another_python_a_warning(examine: Examine) -> None:
    hosts: dict[str, dict[str, Any]] = {"a": {}, "b": {"python": "3.10.2"}, "c": {"torch": "2.2.0"}, "d": {}}
    python = ("b", "warning", "Python 3.10.2, a has 3.11.7")
    assert examine("2.3.1", **hosts) == [python, ("c", "wrong", "torch 2.2.0, this machine has 2.3.1")]
    assert examine(**hosts) == [python, ("c", "wrong", "torch 2.2.0, a has 2.3.1")]


@pytest.mark.parametrize(
    ("said", "state", "word"),
    [
        ({"free_bytes": 2**29}, "warning", "MB free"),
        ({"free_bytes": 2**20}, "wrong", "MB free"),
        ({"torch": ""}, "wrong", "torch is not installed"),
        ({"rsync": False}, "wrong", "no rsync"),
        ({"address": "127.0.0.1"}, "wrong", "cannot reach it"),
        ({"time": 0.0}, "wrong", "behind"),
    ],
)
def test_what_a_host_says_has_limits(examine: Examine, said: dict[str, Any], state: str, word: str) -> None:
    ((host, seen_state, seen),) = examine(a=said, b={})
    assert (host, seen_state) == ("a", state)
    assert word in seen


def test_a_clock_is_only_called_wrong_by_what_the_question_did_not_take() -> None:
    assert preflight.skew_of(105.0, 100.0, 110.0) == 0
    assert preflight.skew_of(115.0, 100.0, 110.0) == 5
    assert preflight.skew_of(90.0, 100.0, 110.0) == -10
