"""How a run on a host ended is known once its supervisor says so, whatever else goes wrong there."""

import shlex
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from runner.core.errors import RequestError
from runner.targets.ssh.handle import HostNode
from runner.targets.ssh.on_host import HELLO
from runner.targets.ssh.openssh import HostError, LostError, OpenSsh
from runner.targets.ssh.session import BOOT, Session
from tests.support.patience import patient
from tests.support.records import Make

ERRORS = [HostError("host a: logs: Directory not empty"), LostError("host a: the connection was closed")]


@pytest.fixture
def node(tmp_path: Path, make: Make) -> HostNode:
    return HostNode(0, OpenSsh(), "python3", "a", make.run(tmp_path), "/cache/kit", None)


@pytest.mark.parametrize("error", ERRORS)
def test_a_run_that_has_ended_well_did_so_also_if_its_folder_stays_there(
    node: HostNode, error: HostError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(do: str, *_: object, **words: Any) -> dict[str, Any]:
        assert words["run"].endswith("-node0")
        if do == "remove":
            raise error
        return {"folder": "/cache/kit/runs/it", "lives": False, "size": 1, "ended": {"code": 0, "why": ""}}

    monkeypatch.setattr(OpenSsh, "fetch", Mock())
    node.begin(Mock(spec=Session, ask=ask))
    node.wait(patient(10))
    assert (node.describe().code, node.describe().why, node.failed) == (0, None, False)
    assert node.has_answered
    assert list(node.notes) == [f"{error}: left behind there; rm -r /cache/kit/runs/it"]


def test_what_a_host_cannot_read_in_the_end_stays_there(node: HostNode, monkeypatch: pytest.MonkeyPatch) -> None:
    states = [{"folder": "/runs/it", "lives": left > 0, "size": left, "ended": {"code": 0}} for left in (2, 1, 0)]
    unread = HostError("host a: Permission denied")
    monkeypatch.setattr(OpenSsh, "fetch", Mock(side_effect=[HostError("host a: busy"), None, unread]))
    monkeypatch.setattr("runner.targets.ssh.handle._BEAT_SECONDS", 0)
    node.begin(Mock(spec=Session, ask=Mock(side_effect=states)))
    node.wait(patient(10))
    assert (node.describe().code, list(node.notes)) == (0, [f"{unread}: left behind there; rm -r /runs/it"])


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (f"import sys; sys.version_info = (3, 6, 8); {BOOT}", r"Python 3\.6\.8, 3\.10 is the oldest"),
        (f"print('welcome'); print('{HELLO}[1, 2')", "no answer of the kit's script"),
    ],
)
def test_a_python_that_does_not_run_the_kits_script_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, says: str
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\nexec {sys.executable} -c {shlex.quote(code)}\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match=f"host a: .*{says}"):
        Session(OpenSsh(), "a", "/old/python")


def test_a_machine_that_can_make_no_connection_any_more_gives_its_node_up(
    node: HostNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = Mock(side_effect=RequestError("kit-ssh-0: it is not this user's alone"))
    monkeypatch.setattr("runner.targets.ssh.handle.connect", refuse)
    node.begin()
    node.wait(patient(10))
    assert (node.ended, node.describe().why) == (True, "kit-ssh-0: it is not this user's alone")
