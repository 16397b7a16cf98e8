"""`runner doctor --on ssh` reports all problems of the hosts at once, each with its fix."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import ssh_hosts
from tests.support.projects import Project

pytestmark = [pytest.mark.hosts, pytest.mark.xdist_group("ssh hosts")]
Doctor = Callable[..., tuple[int, dict[tuple[str, str], dict[str, Any]]]]


@pytest.fixture
def doctor(on_hosts: Project) -> Doctor:
    """Return a function that examines the hosts and returns the exit code and the findings by place and check."""

    def ask(*words: str) -> tuple[int, dict[tuple[str, str], dict[str, Any]]]:
        done = on_hosts.runner("doctor", "--on", "ssh", *words, "--device", "cpu", "--json")
        found = json.loads(done.stdout)["findings"]
        assert all(finding["mend"] for finding in found if finding["state"] != "ok")
        return done.code, {(finding["where"], finding["check"]): finding for finding in found}

    return ask


@pytest.mark.alone
def test_all_that_is_wrong_is_found_at_once_and_nothing_is_left_on_the_hosts(doctor: Doctor) -> None:
    words = ["--with", "hosts=h0,h1,absent.invalid", *ssh_hosts.WORDS[2:], "--with", "data=/no/such/data"]
    words += ["--with", f"folder={ssh_hosts.OWN}/not yet"]
    with ssh_hosts.dropped("h1", "-s", "10.77.0.11"):
        code, found = doctor(*words)
    assert code == 1
    says = {
        ("absent.invalid", "ssh"): "Could not resolve",
        ("h0", "data"): "/no/such/data",
        ("h1", "data"): "/no/such/data",
        ("h0", "reach"): "h1 at 10.77.0.12",
        ("h1", "reach"): "h0 at 10.77.0.11",
    }
    wrong = {place: finding["seen"] for place, finding in found.items() if finding["state"] == "wrong"}
    assert set(wrong) == set(says)
    assert all(says[place] in seen for place, seen in wrong.items())
    assert not any((ssh_hosts.own(name) / "not yet").exists() for name in ssh_hosts.NAMES)
