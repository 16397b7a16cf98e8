"""Names of hosts, the ssh command, and artifacts of several hosts; no host is needed."""

import subprocess
from pathlib import Path

import pytest

from runner import targets
from runner.core.errors import RequestError
from runner.core.layout import Layout
from runner.records.folder import RunFolder, begin
from runner.targets.ssh import openssh
from runner.targets.ssh.handle import settle
from runner.targets.ssh.openssh import HostError, OpenSsh
from runner.targets.ssh.target import chosen, read_hosts
from tests.support.records import Make

HOSTILE = ["-oProxyCommand=touch x", "user@-oProxyCommand=x", "h0;reboot", "h0 h1", "$(reboot)", "`reboot`", "h0\nh1"]
HOSTILE += ["h0'", "../h0", "\x1b[31mh0"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_ssh_or_a_shell_takes_for_more_is_refused(name: str) -> None:
    with pytest.raises(RequestError, match=r"^hosts:2: .* host") as error:
        read_hosts(["h9", name], "hosts")
    assert str(error.value).isprintable()


def test_a_host_may_have_a_user_slots_and_a_comment() -> None:
    lines = ["# ours", "h0 slots=4", "", "a.user+x@h_1 2 # small", "10.0.0.1", "gpu-01.lab.example"]
    assert read_hosts(lines, "") == {"h0": 4, "a.user+x@h_1": 2, "10.0.0.1": None, "gpu-01.lab.example": None}
    for lines in (["h0", "h1 slots=x"], ["h0", "h0"], [""]):
        with pytest.raises(RequestError, match="hosts"):
            read_hosts(lines, "hosts")


def test_unlike_hosts_take_unlike_layouts() -> None:
    hosts: dict[str, int | None] = {"h0": 2, "h1": 3}
    assert chosen(hosts, Layout.parse("2+3")) == ["h0", "h1"]
    assert chosen(hosts, Layout.parse("1x2")) == ["h0"]
    with pytest.raises(RequestError, match="host h0 has 2 slots"):
        chosen(hosts, Layout.parse("3+2"))
    with pytest.raises(RequestError, match="needs 3 hosts, 2 given"):
        chosen(hosts, Layout.parse("3x1"))


@pytest.mark.parametrize("words", [[], ["hosts=h0", "hosts_file=x"], ["hosts_file=/nowhere"]])
def test_hosts_are_named_in_one_way(words: list[str]) -> None:
    with pytest.raises(RequestError, match="hosts_file="):
        targets.load("ssh", words)


def test_what_a_shell_would_read_stays_one_word(tmp_path: Path) -> None:
    words = ["/a path/it's $(x)/python", "-c", 'print("1;2")', "a\nb", ""]
    remote = OpenSsh(str(tmp_path / "config")).command("h0", words)[-1]
    printed = subprocess.run(["sh", "-c", f"printf '%s\\0' {remote}"], capture_output=True, check=True).stdout
    assert printed.split(b"\0")[:-1] == [word.encode() for word in words]


def test_ssh_never_asks_and_forwards_nothing() -> None:
    command = OpenSsh().command("h0", ["true"])
    assert command[-3:-1] == ["--", "h0"]
    for option in ("BatchMode=yes", "ForwardAgent=no", "PermitLocalCommand=no", "ClearAllForwardings=yes"):
        assert option in command


def test_artifacts_of_one_name_are_kept_of_every_node(tmp_path: Path, make: Make) -> None:
    artifacts = begin(tmp_path, make.launch(), "{}", "").path / "artifacts"
    sent = {
        "": {"config.json": b"{}", "plot.png": b"zero", "both/x": b"0"},
        "@node1": {"config.json": b"{}", "plot.png": b"one", "trace/rank1.json": b"[]", "both": b"a file here"},
        "@node2": {"plot.png": b"two", "late/y": b"2"},
    }
    for node, contents in sent.items():
        for name, data in contents.items():
            path = artifacts / node / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    expected = {**sent[""], "trace/rank1.json": b"[]", "late/y": b"2", "@node2/plot.png": b"two"}
    expected |= {f"@node1/{name}": sent["@node1"][name] for name in ("plot.png", "both")}
    for _ in range(2):
        settle(RunFolder(artifacts.parent), 3)
        kept = [path for path in artifacts.rglob("*") if path.is_file()]
        assert {str(path.relative_to(artifacts)): path.read_bytes() for path in kept} == expected
    assert all(any(path.iterdir()) for path in artifacts.rglob("*") if path.is_dir())


def test_nobody_else_can_enter_the_folder_of_the_sockets_and_their_names_are_short_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(f"{openssh._SOCKETS}/") + 8 + 40 + 17 <= 107  # unix(7); ssh's hash, and its suffix while it connects
    own = tmp_path / "sockets"
    monkeypatch.setattr(openssh, "_SOCKETS", own)
    OpenSsh().command("h0", ["true"])
    assert own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o755)
    with pytest.raises(HostError, match="others can access"):
        OpenSsh().command("h0", ["true"])
