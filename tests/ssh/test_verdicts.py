"""Hosts are judged by what each says of itself."""

import pytest

from runner.targets.ssh.verdicts import (
    Answer,
    Facts,
    Need,
    facts_of,
    judge,
    judge_versions,
    skew_of,
)

NEED = Need("/opt/python", "", "", "", "", 0)


def facts(name: str, python: str = "3.11.7", torch: str = "2.3.1") -> Facts:
    return Facts(name, name, "/cache", "10.0.0.1", "eth0", python, torch)


def test_another_torch_than_this_machines_is_wrong_and_another_python_a_warning() -> None:
    hosts = [facts("a"), facts("b", python="3.10.2"), facts("c", torch="2.2.0"), facts("d", python="3.11.2")]
    assert [(verdict.host, verdict.state, verdict.seen) for verdict in judge_versions(hosts, "2.3.1")] == [
        ("b", "warning", "Python 3.10.2, a has 3.11.7"),
        ("c", "wrong", "torch 2.2.0, this machine has 2.3.1"),
    ]
    assert [verdict.seen for verdict in judge_versions(hosts, "")] == [
        "Python 3.10.2, a has 3.11.7",
        "torch 2.2.0, a has 2.3.1",
    ]


@pytest.mark.parametrize(
    ("skew", "free", "states"),
    [(0.1, 2**31, {"ok"}), (0.9, 2**31, {"ok", "warning"}), (-3, 2**31, {"ok", "wrong"}), (0, 2**20, {"ok", "wrong"})],
)
def test_a_clock_and_a_disk_have_limits(skew: float, free: int, states: set[str]) -> None:
    said = Answer("a", "3.11.7", "2.3.1", 0.0, "/cache", free, "10.0.0.1", [("10.0.0.1", "eth0")], False, 0)
    found = list(judge(facts_of("a", said, "10.0.0.0/8"), said, skew, NEED, 0))
    assert {verdict.state for verdict in found} == states
    assert all(verdict.mend for verdict in found if verdict.state != "ok")


def test_a_clock_is_only_called_wrong_by_what_the_question_did_not_take() -> None:
    assert skew_of(105.0, 100.0, 110.0) == 0
    assert skew_of(115.0, 100.0, 110.0) == 5
    assert skew_of(90.0, 100.0, 110.0) == -10
