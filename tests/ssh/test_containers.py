"""Runs on hosts whose processes are in containers of podman: an image is brought once, and nothing is left behind."""

import os
import shlex
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ssh.test_document import IN_CONTAINERS, SMALL
from tests.support import host_images, ssh_hosts
from tests.support.launches import ended, run_once, until
from tests.support.odd import Odd
from tests.support.projects import Project
from tests.support.same_records import curve, differences

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.xdist_group("ssh hosts with containers"),
    pytest.mark.skipif(bool(host_images.missing()), reason=str(host_images.missing())),
]
TRAINS = ("mnist-cpu", "--layout", "2x1", *shlex.split("--set epochs=2 --set dataset=digits --set peak_milliseconds=0"))
NAME = "registry.invalid/team/train:1"
ONE_HOST = ("--with", "hosts=h0", *ssh_hosts.WORDS[2:])
PODMAN = ("--with", "container_runtime=podman")
FOLDER = ("--with", f"folder={ssh_hosts.OWN}/in containers")
IN_IMAGE = (*PODMAN, "--with", f"container={NAME}", *FOLDER)
HERE = (*ssh_hosts.WORDS[2:], *FOLDER)
"""The folder is another one than that of the tests beside these."""


WHERE = """
    from pathlib import Path

    print("in a container:", Path("/run/.containerenv").exists(), "CONTAINERS_CONF" in os.environ, flush=True)
    Path(os.environ["KIT_ARTIFACTS"], f"rank{RANK}").write_text("mine")
"""
STUCK = """
    def hangs_here():
        time.sleep(300)

    hangs_here()
"""


def test_an_image_is_brought_once_and_two_hosts_train_in_it_as_this_machine_does(
    on_hosts: Project, run: Callable[..., Any], images: Callable[..., str]
) -> None:
    own = images(NAME)
    done, there = run(*TRAINS, *IN_IMAGE)
    assert done.code == 0, done.snapshot
    assert done.stderr.count(f"the image {NAME} is brought") == 2
    assert [host_images.ids(host) for host in ssh_hosts.NAMES] == [[own]] * 2
    assert there["launch"]["image"] == {"name": NAME, "id": own, "runtime": "podman"}
    places = [node["place"] for node in there["outcome"]["exits"]]
    assert [(place["host"], place["image"]) for place in places] == [(name, own) for name in ssh_hosts.NAMES]
    assert all(place["container"].startswith("podman ") for place in places)
    _, here = run_once(on_hosts, *TRAINS, "--on", "local", "--device", "cpu")
    assert curve(there) == curve(here)
    assert differences(there, here) == []
    on_hosts.program("boxed.where", Odd("Say where it runs.", WHERE, {}).text("where"))
    on_hosts.define(name="where", program="boxed.where", matrix={"layout": ["2x1"]})
    again, record = run("where", *IN_IMAGE)
    assert again.code == 0, again.snapshot
    assert "is brought" not in again.stderr
    folder = on_hosts.results / "where" / record["launch"]["id"]
    for rank in (0, 1):
        assert "in a container: True False" in (folder / "raw" / f"node{rank}-rank{rank}.stdout").read_text()
        assert (folder / "artifacts" / f"rank{rank}").stat().st_uid == os.getuid()
    assert host_images.containers() == []


def left_of(run: Path) -> list[Any]:
    named = [name for name in host_images.containers() if run.name in name]
    return [*named, *ssh_hosts.processes_of(run.name)]


def test_no_container_is_left_however_a_run_ends(
    on_hosts: Project, start: Callable[..., tuple[Any, Path]], images: Callable[..., str]
) -> None:
    images(NAME)
    words = ("odd-slow", "--layout", "2x1", "--set", "seconds=200", *IN_IMAGE)
    runner, lost = start(*words)
    until(ssh_hosts.has_printed(lost), 60)
    assert len([name for name in host_images.containers() if lost.name in name]) == 2
    runner.kill()
    killed = time.monotonic()

    interrupted, stopped = start(*words)
    until(ssh_hosts.has_printed(stopped), 60)
    interrupted.send_signal(signal.SIGINT)
    code, stderr = ended(interrupted)
    assert code == 130, stderr
    assert left_of(stopped) == []
    for host in ssh_hosts.NAMES:
        assert list((ssh_hosts.own(host) / "in containers" / "runs").glob(f"{stopped.name}*")) == []

    process, orphaned = start(*words)
    until(ssh_hosts.has_printed(orphaned), 60)
    ssh_hosts.end_supervisor(orphaned.name, node="1", engine="podman")
    code, stderr = ended(process)
    assert code == 1, stderr
    assert "host h1: its supervisor was killed" in on_hosts.record(orphaned)["reason"]
    until(lambda: left_of(orphaned) == [], 10, every=0.5)

    until(lambda: left_of(lost) == [], max(1.0, killed + 31 - time.monotonic()), every=0.5)
    assert on_hosts.runner("recover").code == 0
    assert on_hosts.record(lost)["status"] == "incomplete"


def test_what_a_rank_did_when_it_hung_is_seen_in_its_container(
    on_hosts: Project, run: Callable[..., Any], images: Callable[..., str]
) -> None:
    images(NAME)
    on_hosts.program("boxed.stuck", Odd("Hang.", STUCK, {}).text("stuck"))
    on_hosts.define(name="stuck", program="boxed.stuck", matrix={"layout": ["2x1"]}, patience_seconds=4)
    done, record = run("stuck", *IN_IMAGE)
    assert done.code == 1, done.snapshot
    assert [rank["node"] for rank in record["outcome"]["stuck"]["ranks"]] == [0, 1], record["outcome"]["stuck"]
    raw = on_hosts.results / "stuck" / record["launch"]["id"] / "raw"
    for rank in (0, 1):
        assert "in hangs_here" in (raw / f"node{rank}-rank{rank}.stderr").read_text()
    assert host_images.containers() == []


def test_an_image_that_no_run_can_succeed_in_is_refused(
    refused: Callable[..., str], images: Callable[..., str]
) -> None:
    images("none/torch:1", host_images.NO_TORCH)
    images("none/python:1", "/nothing")
    said = refused(*ssh_hosts.WORDS, *PODMAN, "--with", "container=none/torch:1")
    assert "host h0: image none/torch:1: torch is not installed for its python3: choose another image" in said
    said = refused(*ONE_HOST, *PODMAN, "--with", "container=none/python:1", layout="1x1")
    assert "host h0: image none/python:1: podman run ended with " in said
    assert said.endswith("choose an image with python3 and torch")
    assert host_images.containers() == []


def test_an_image_that_nobody_has_is_pulled_and_one_that_cannot_be_is_refused(
    refused: Callable[..., str], images: Callable[..., str]
) -> None:
    del images  # there are none
    said = refused(*ONE_HOST, *PODMAN, "--with", "container=127.0.0.1:9/team/none:1", layout="1x1")
    assert said.startswith("error: host h0: image 127.0.0.1:9/team/none:1: ")
    assert said.endswith("check its name, and whether the host may pull it; or have it in this machine's engine")


def test_hosts_that_have_different_images_under_one_name_are_refused(
    refused: Callable[..., str], images: Callable[..., str]
) -> None:
    first = images("localhost/one:1", host=ssh_hosts.NAMES[0])
    other = images("localhost/one:1", f"{host_images.TORCH}:/other", host=ssh_hosts.NAMES[1])
    said = refused(*ssh_hosts.WORDS, *PODMAN, "--with", "container=localhost/one:1")
    assert said.startswith(f"error: host h1: the image localhost/one:1 is {other} there, and {first} on h0: ")


def test_a_host_without_an_engine_is_refused(refused: Callable[..., str]) -> None:
    python = ssh_hosts.with_python("h1", 'PATH=/nowhere exec {python} "$@"', file="python without podman")
    said = refused(*ssh_hosts.WORDS, *python, *IN_IMAGE)
    assert said.startswith("error: host h1: there is no podman on the PATH: install it there, or choose ")


@pytest.mark.parametrize("command", IN_CONTAINERS)
def test_a_command_of_the_document_does_what_it_says(
    on_hosts: Project, images: Callable[..., str], command: str
) -> None:
    words = shlex.split(command)[1:]
    (name,) = [word.partition("=")[2] for word in words if word.startswith("container=")]
    own = images(name)
    before = on_hosts.runs("mnist")
    done = on_hosts.runner(*words, *HERE, *(SMALL if words[0] == "run" else []))
    assert done.code == 0, done.snapshot
    new = [on_hosts.record(run) for run in on_hosts.runs("mnist") if run not in before]
    assert [record["launch"]["image"]["id"] for record in new] == ([own] if words[0] == "run" else [])
    assert name in done.stdout + done.stderr
