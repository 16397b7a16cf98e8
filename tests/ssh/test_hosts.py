"""Names and files of hosts, before any of them is asked; and artifacts that come from several."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from runner import targets
from runner.core.errors import RequestError
from runner.core.layout import Layout
from runner.records.folder import RunFolder, begin
from runner.targets.ssh.handle import settle
from runner.targets.ssh.hosts import Host, chosen, of_file, of_words
from runner.targets.ssh.openssh import OpenSsh
from tests.support.records import Make

HOSTILE = ["-oProxyCommand=touch x", "user@-oProxyCommand=x", "h0;reboot", "h0 h1", "$(reboot)", "`reboot`", "h0\nh1"]
HOSTILE += ["h0'", "../h0", "\x1b[31mh0", "", "h" * 400]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_ssh_or_a_shell_takes_for_more_is_refused(name: str) -> None:
    with pytest.raises(RequestError, match="is no name of a host") as error:
        of_words(f"{name},h1")
    assert str(error.value).isprintable()


@pytest.mark.parametrize("name", ["h0", "user@h0", "10.0.0.1", "fe80::1", "gpu-01.lab.example", "a.user+x@h_0"])
def test_a_name_that_ssh_knows_is_taken(name: str) -> None:
    assert of_words(name) == [Host(name)]


def test_a_file_of_hosts_has_slots_and_comments(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# our machines\nh0 slots=4\n\nuser@h1 2 # small\nh2\n")
    assert of_file(file) == [Host("h0", 4), Host("user@h1", 2), Host("h2")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("h0\nh1 slots=x\n", "hosts:2: 'h1 slots=x': write a host and its slots"),
        ("-oProxyCommand=x\n", "hosts:1: '-oProxyCommand=x' is no name of a host"),
        ("h0\nh0\n", "host h0 is named twice"),
    ],
)
def test_a_file_of_hosts_with_an_error_names_the_line(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "hosts"
    file.write_text(text)
    with pytest.raises(RequestError) as error:
        of_file(file)
    assert says in str(error.value)


def test_unlike_hosts_take_unlike_layouts() -> None:
    hosts = [Host("h0", 2), Host("h1", 3)]
    assert chosen(hosts, Layout.parse("2+3")) == hosts
    assert chosen(hosts, Layout.parse("1x2")) == hosts[:1]
    with pytest.raises(RequestError, match=r"host h0: layout 3\+2 wants 3 processes on it \(node 0\), it has 2 slots"):
        chosen(hosts, Layout.parse("3+2"))
    with pytest.raises(RequestError, match="layout 3x1 needs 3 hosts, 2 hosts are given"):
        chosen(hosts, Layout.parse("3x1"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "needs --with hosts=h0,h1 or hosts_file=FILE"),
        (["hosts=h0", "hosts_file=x"], "takes hosts or hosts_file, not both"),
        (["hosts=h0", "python=bin/python"], "write the whole path"),
        (["hosts=h0", "network=ten"], "write an address and a length"),
        (["hosts=h0", "python=/opt/a!b/python"], "not every login shell takes"),
    ],
)
def test_options_that_make_no_sense_are_refused(words: list[str], says: str) -> None:
    with pytest.raises(RequestError) as refused:
        targets.load("ssh", words).examine("cpu")
    assert says in str(refused.value)
    assert str(refused.value).isprintable()


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
    for _ in range(2):
        settle(RunFolder(artifacts.parent), 3)
        kept = [path for path in artifacts.rglob("*") if path.is_file()]
        assert {str(path.relative_to(artifacts)): path.read_bytes() for path in kept} == {
            **sent[""],
            "trace/rank1.json": b"[]",
            "late/y": b"2",
            "@node1/plot.png": b"one",
            "@node1/both": b"a file here",
            "@node2/plot.png": b"two",
        }
    assert all(any(path.iterdir()) for path in artifacts.rglob("*") if path.is_dir())


@pytest.mark.parametrize(("length", "has_room"), [(32, True), (33, False), (100, False)])
def test_sockets_are_kept_where_their_names_are_short_enough(
    monkeypatch: pytest.MonkeyPatch, length: int, has_room: bool
) -> None:
    runtime = tempfile.mkdtemp(prefix="r" * (length - len("/tmp/12345678")), dir="/tmp")
    assert len(runtime) == length
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    try:
        (option,) = (word for word in OpenSsh().command("h0", []) if word.startswith("ControlPath="))
        folder = option.partition("=")[2].rpartition("/")[0]
        assert folder.startswith(runtime) == has_room
        assert len(f"{folder}/") + 8 + 40 + 17 <= 107  # unix(7); ssh's hash, and what it adds while it connects
    finally:
        shutil.rmtree(runtime)


def test_nobody_else_can_enter_the_folder_of_the_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    place = tempfile.mkdtemp(dir="/tmp")  # short, as the path of a socket has to be
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    monkeypatch.setattr("tempfile.tempdir", place)
    try:
        OpenSsh().command("h0", ["true"])
        (own,) = Path(place).iterdir()
        assert own.stat().st_mode & 0o777 == 0o700
        own.chmod(0o755)
        with pytest.raises(RequestError, match="it is not this user's alone"):
            OpenSsh().command("h0", ["true"])
    finally:
        shutil.rmtree(place)
