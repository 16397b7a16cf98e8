"""Verdicts about hosts, made from the facts that each reports."""

from collections.abc import Callable
from typing import Any

import pytest

from runner.core import clock
from runner.targets.ssh import preflight
from runner.targets.ssh.openssh import OpenSsh
from runner.targets.ssh.target import Options

SAID = {
    "machine": "it",
    "python": "3.11.7",
    "torch": "2.3.1",
    "rsync": True,
    "folder": "/cache",
    "writable": True,
    "free_bytes": 2**31,
    "address": "10.0.0.1",
    "interface": "eth0",
    "addresses": ["10.0.0.1"],
    "has_data": False,
    "gpus": 0,
    "port_trouble": "",
    "listens": 1,
}
Examine = Callable[..., list[tuple[str, str, str]]]


@pytest.fixture
def examine(monkeypatch: pytest.MonkeyPatch) -> Examine:
    """Return a function that examines hosts with changed facts, and returns the verdicts that are not ok."""
    monkeypatch.setattr(OpenSsh, "connect", lambda *_: None)

    def examined(options: Options | None = None, gpus: int = 0, **hosts: dict[str, Any]) -> list[tuple[str, str, str]]:
        def ask(_: OpenSsh, host: str, do: str, **__: object) -> Any:
            said = {**SAID, "reach": {}, "times": [clock.now(), clock.now()], **hosts[host]}
            return said["reach"] if do == "reach" else said

        monkeypatch.setattr(OpenSsh, "ask", ask)
        _, verdicts = preflight.examine(OpenSsh(), list(hosts), options or Options(), 0, [gpus] * len(hosts))
        found = [verdict for verdict in verdicts if verdict.state != "ok"]
        assert [bool(verdict.mend) for verdict in verdicts] == [verdict in found for verdict in verdicts]
        return [(verdict.host, verdict.state, verdict.seen) for verdict in found]

    return examined


def test_another_torch_is_wrong_and_another_python_a_warning(examine: Examine) -> None:
    found = examine(a={}, b={"python": "3.10.2"}, c={"torch": "2.2.0"}, d={})
    assert found == [("b", "warning", "Python 3.10.2, a has 3.11.7"), ("c", "wrong", "torch 2.2.0, a has 2.3.1")]


@pytest.mark.parametrize(
    ("said", "state", "word"),
    [
        ({"free_bytes": 2**29}, "warning", "MB free"),
        ({"free_bytes": 2**20}, "wrong", "MB free"),
        ({"writable": False}, "wrong", "cannot be written"),
        ({"torch": ""}, "wrong", "torch is not installed"),
        ({"rsync": False}, "wrong", "rsync"),
        ({"address": "127.0.0.1", "interface": "lo"}, "wrong", "interface lo"),
        ({"interface": ""}, "wrong", "interface unknown"),
        ({"address": "", "interface": ""}, "wrong", "no address in network"),
        ({"has_data": False}, "wrong", "no folder /data"),
        ({"gpus": 0}, "wrong", "0 GPUs"),
        ({"port_trouble": "in use"}, "wrong", "port 9 of 10.0.0.1"),
        ({"times": [0.0, 0.0]}, "wrong", "behind"),
        ({"times": [2e12, 2e12]}, "wrong", "ahead"),
        ({"reach": {"b": "no route"}}, "wrong", "b at 10.0.0.1, port 1: no route"),
    ],
)
def test_what_a_host_says_has_limits(examine: Examine, said: dict[str, Any], state: str, word: str) -> None:
    fine = {"has_data": True, "gpus": 1}
    options = Options(data="/data", port=9, network="10.0.0.0/8")
    ((host, seen_state, seen),) = examine(options, 1, a={**fine, **said}, b=fine)
    assert (host, seen_state) == ("a", state)
    assert word in seen


def test_a_clock_is_only_called_wrong_by_what_the_question_did_not_take(examine: Examine) -> None:
    assert examine(a={"times": [clock.now() + 60, clock.now() - 60]}) == []
