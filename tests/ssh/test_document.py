"""Run the ssh commands of docs/clusters.md and README.md on hosts with a real sshd."""

import re
import shlex

import pytest

from tests.support import ssh_hosts
from tests.support.projects import ROOT, Project

pytestmark = [pytest.mark.hosts, pytest.mark.xdist_group("ssh hosts")]
TEXT = (ROOT / "docs" / "clusters.md").read_text("utf-8") + (ROOT / "README.md").read_text("utf-8")
BLOCKS = [body for _, body in re.findall(r"^```(\w*)\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)]
COMMANDS = [
    line.partition(" #")[0].strip()
    for body in BLOCKS
    for line in body.splitlines()
    if re.match(r"runner \w+ .*\bssh\b", line)
]
assert len(COMMANDS) > 5
(HOSTS,) = (body for body in BLOCKS if re.match(r"\w+ slots=", body))
SMALL = shlex.split("--set epochs=1 --set dataset=digits --set peak_milliseconds=0 --repeat 1 --device cpu")


@pytest.fixture
def as_written(on_hosts: Project) -> Project:
    """Return a project with the hosts file of the document."""
    (on_hosts.root / "hosts.txt").write_text(HOSTS, "utf-8")
    return on_hosts


@pytest.mark.parametrize("command", sorted({*COMMANDS}))
def test_a_command_of_the_document_does_what_it_says(as_written: Project, command: str) -> None:
    words = shlex.split(command)[1:]
    before = as_written.runs("mnist")
    if "--on" in words:
        words += ["--with", f"config={ssh_hosts.CONFIG}"]
    if words[0] == "run":
        words += SMALL
    done = as_written.runner(*words)
    assert done.code == 0, done.snapshot
    new = [as_written.record(run) for run in as_written.runs("mnist") if run not in before]
    if words[0] != "run" or "--dry-run" in words:
        assert new == []
        assert "h0" in done.stdout or words[0] == "targets"
        return
    (record,) = new
    assert record["status"] == "completed"
    assert [node["place"]["host"] for node in record["outcome"]["exits"]] == ["h0", "h1"]
    assert {rank["facts"]["env"].get("GLOO_SOCKET_IFNAME") for rank in record["ranks"]} == {"eth0"}
