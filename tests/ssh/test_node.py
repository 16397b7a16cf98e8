"""The end of a run on a host, and the host's side of it, with this machine as the host."""

import shlex
import socket
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from runner.targets.ssh import on_host
from runner.targets.ssh.handle import HostNode
from runner.targets.ssh.openssh import BOOT, HostError, LostError, OpenSsh
from tests.support import processes
from tests.support.launches import until
from tests.support.patience import patient
from tests.support.records import Make

OLD = f"import sys; sys.version_info = (3, 6, 8); {BOOT}"
LOST, REFUSED = LostError("host a: the connection was closed"), HostError("host a: logs: Directory not empty")
ENDED = {"folder": "/cache/runs/it", "lives": False, "ended": {"code": 0, "why": ""}}
LIVES = {**ENDED, "lives": True, "ended": {}}


@pytest.fixture
def node(tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> HostNode:
    monkeypatch.setattr("runner.targets.ssh.handle._BEAT_SECONDS", 0)
    monkeypatch.setattr(OpenSsh, "forget", Mock())
    return HostNode(0, OpenSsh(), "a", make.run(tmp_path), "/cache")


@pytest.mark.parametrize(
    ("answers", "unread", "code", "why", "notes"),
    [
        ([LIVES, ENDED, None], ["host a: busy", ""], 0, "", ""),
        ([LOST, ENDED, None], [""], 0, "", "connected again"),
        ([ENDED, LOST], [""], 0, "", "rm -r /cache/runs/it"),
        ([ENDED], ["host a: Permission denied"], 0, "", "Permission denied: "),
        ([LIVES, ENDED, None], [LOST, ""], 0, "", "connected again"),
        ([LIVES, ENDED], [OSError(28, "No space left on device")], 0, "", ""),
        ([{**ENDED, "ended": {}}, None], [""], None, "its supervisor was killed", ""),
        ([{**ENDED, "ended": {"code": -15, "why": "lease"}}, None], [""], None, "lost the runner", ""),
        ([REFUSED], [], None, "Directory not empty", ""),
    ],
)
def test_the_end_of_a_run_is_what_its_supervisor_says(
    node: HostNode,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[Any],
    unread: list[Any],
    code: int | None,
    why: str,
    notes: str,
) -> None:
    monkeypatch.setattr(OpenSsh, "ask", ask := Mock(side_effect=answers))
    monkeypatch.setattr(OpenSsh, "fetch", Mock(side_effect=unread))
    node.begin()
    node.wait(patient(10))
    assert node.ended
    assert (node.describe().code, ask.call_count) == (code, len(answers))
    assert why in (node.describe().why or "")
    assert notes in "; ".join(node.notes)
    assert bool(node.failure) == any(type(error) is OSError for error in unread)


def test_a_host_that_does_not_come_back_is_given_up(node: HostNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.targets.ssh.handle._GIVE_UP_SECONDS", 0)
    monkeypatch.setattr(OpenSsh, "ask", Mock(side_effect=LOST))
    node.begin()
    node.wait(patient(10))
    assert (node.describe().code, node.has_answered) == (None, False)
    assert "30 s" in str(node.describe().why)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenSsh:
    """Return an ssh client whose ssh runs the words with sh on this machine, as sshd would."""
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\necho \'welcome {"answer": 1}\'\nfor words; do :; done\nexec sh -c "$words"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return OpenSsh("", sys.executable)


def test_a_supervisor_starts_a_run_and_ends_it_when_told_to(here: OpenSsh, tmp_path: Path) -> None:
    run = {"base": str(tmp_path), "run": "it"}
    folder, log = tmp_path / "runs" / "it", tmp_path / "log"
    argv = ["sh", "-c", "echo $PET_MASTER_PORT $KIT_MORE; sleep 600 & wait"]
    env = {"PYTHONPATH": "", "PET_MASTER_ADDR": "127.0.0.1", "KIT_RUN_ID": f"{tmp_path}/0", "KIT_MORE": "more"}
    words = {"cwd": str(tmp_path), "data": f"{tmp_path}/d", "folders": [f"{folder}/kept/raw"], "port": 0}
    port = here.ask("a", "begin", **run, **words, argv=argv, env=env, log=str(log))["port"]
    until(lambda: log.read_text() == f"{port} more\n", 20)
    ended = until(lambda: not (state := here.ask("a", "beat", **run, stop=True))["lives"] and state["ended"], 20)
    assert ended == {"code": -15, "why": "stop"}
    assert not processes.seen(lambda environ: environ.get("KIT_RUN_ID") == f"{tmp_path}/0")
    here.ask("a", "remove", **run)
    assert here.ask("a", "beat", **run, stop=False) == {"folder": "", "lives": False, "ended": {}}


def test_a_host_describes_itself_and_is_reached(here: OpenSsh, monkeypatch: pytest.MonkeyPatch) -> None:
    address = next(own for own, name in on_host._addresses().items() if name != "lo" and "." in own)
    monkeypatch.setenv("SSH_CONNECTION", f"192.0.2.1 5 {address} 22")
    with socket.create_server((address, 0)) as server:
        port = server.getsockname()[1]
        said = here.ask("a", "facts", base="/nowhere", data="/", network="", port=port, alone=False)
    assert (said["address"], said["folder"], said["has_data"]) == (address, "/nowhere", True)
    assert "in use" in said["port_trouble"]
    reached = here.ask("a", "reach", places={"b": [address, said["listens"]], "c": ["127.0.0.1", 9]})
    assert (reached["b"], bool(reached["c"])) == ("", True)


@pytest.mark.parametrize(
    ("python", "says"),
    [
        ("/no/such/python", "there is no Python"),
        ("/bin/echo", "-c import"),
        ("/bin/false", "ended with 1"),
        (f"#!/bin/sh\n{sys.executable} -c {shlex.quote(OLD)}", r"Python 3\.6\.8 is too old"),
        ("#!/bin/sh\necho ssh: connect to host a port 22: Connection refused; exit 255", "runs sshd"),
        ("#!/bin/sh\nexec sleep 600", "no answer"),
    ],
)
def test_a_host_that_does_not_run_the_kits_script_is_named(
    here: OpenSsh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: str, says: str
) -> None:
    monkeypatch.setattr("runner.targets.ssh.openssh._CONNECT_SECONDS", 0)
    here.python = python
    if python.startswith("#"):
        here.python = str(tmp_path / "python")
        Path(here.python).write_text(f"{python}\n")
        Path(here.python).chmod(0o755)
    with pytest.raises(HostError, match=f"host a: .*{says}"):
        here.ask("a", "beat", 0.1 if says == "no answer" else 60.0, base="", run="none", stop=False)


def test_a_machine_without_ssh_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(HostError, match="ssh is not installed"):
        OpenSsh().connect("a")
