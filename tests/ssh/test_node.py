"""How a run on a host ended is known once its supervisor says so, whatever else goes wrong there."""

import shlex
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from runner.core.errors import RequestError
from runner.targets.ssh.node import RemoteNode
from runner.targets.ssh.openssh import OpenSsh
from runner.targets.ssh.session import BOOT, HostError, LostError, Session
from tests.support.patience import patient
from tests.support.records import Make


@pytest.mark.parametrize(
    "error",
    [HostError("host a: /cache/kit/runs/it/logs: Directory not empty"), LostError("host a: the connection was closed")],
)
def test_a_run_that_has_ended_well_did_so_also_if_its_folder_stays_there(
    tmp_path: Path, make: Make, error: HostError
) -> None:
    folder = make.run(tmp_path)
    run = f"{folder.path.name}-node0"
    session = Mock(spec=Session)
    session.receive.return_value = {"answer": {"ended": {"code": 0, "why": ""}}}, b""
    session.answer.side_effect = lambda frame: frame["answer"]
    session.ask.side_effect = error
    node = RemoteNode(0, OpenSsh(), "python3", "a", folder, "/cache/kit", None)
    node.begin(session)
    node.wait(patient(10))
    session.send.assert_called_once_with("follow", offsets={}, folder="/cache/kit", run=run)
    session.ask.assert_called_once_with("remove", folder="/cache/kit", run=run)
    assert (node.describe().code, node.describe().why, node.failed) == (0, None, False)
    assert node.has_answered
    assert list(node.notes) == [f"{error}: left behind there; rm -r /cache/kit/runs/{run}"]


def test_a_python_that_is_too_old_for_the_kits_script_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = tmp_path / "ssh"
    boot = f"import sys; sys.version_info = (3, 6, 8); {BOOT}"
    ssh.write_text(f"#!/bin/sh\nexec {sys.executable} -c {shlex.quote(boot)}\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    says = "host a: /old/python is Python 3.6.8, 3.10 is the oldest that the kit runs on: name another Python with "
    with pytest.raises(HostError, match=says):
        Session(OpenSsh(), "a", "/old/python")


def test_a_machine_that_can_make_no_connection_any_more_gives_its_node_up(
    tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RequestError("kit-ssh-0: it is not this user's alone")

    monkeypatch.setattr("runner.targets.ssh.node.connect", refuse)
    node = RemoteNode(0, OpenSsh(), "python3", "a", make.run(tmp_path), "/cache/kit", None)
    node.begin()
    node.wait(patient(10))
    assert (node.ended, node.describe().why) == (True, "kit-ssh-0: it is not this user's alone")
