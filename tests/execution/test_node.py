"""Nodes that are started by hand, and the records of their runs."""

import json
import os
import re
import signal
import subprocess

import pytest

from runner.core.network import GLOO, NCCL, interfaces, route_to
from runner.execution.node import on_the_route
from runner.targets.base import NodeSpec
from tests.support.launches import BEGINNING, END, WAIT, ended, until, words_are_printed
from tests.support.projects import Project

pytestmark = pytest.mark.real_processes


def by_hand(project: Project, *words: str) -> subprocess.Popen[str]:
    project.results.mkdir(exist_ok=True)
    return project.start("node", "tiny", "--device", "cpu", *words)


@pytest.mark.slow
def test_the_last_node_makes_the_record_as_collect_does(project: Project) -> None:
    project.define()
    process = by_hand(project, "--layout", "1x2", "--", "--epochs", "2", "--batch-size=16")
    code, stderr = ended(process)
    assert code == 0, stderr
    record = project.record()
    assert project.runner("collect", *project.runs()).code == 0
    assert project.record()["metrics"] == record["metrics"]
    assert (record["status"], len(record["epochs"])) == ("completed", 2)
    assert record["launch"]["args"] == {"epochs": 2, "batch_size": 16}


def address_of_this_machine() -> str | None:
    for name, addresses in interfaces().items():
        for address in addresses:
            if name != "lo" and ":" not in address and (route := route_to(address)) and route.interface == name:
                return address
    return None


@pytest.mark.slow
def test_unlike_nodes_agree_on_one_run_and_use_the_interface_that_reaches_the_master(project: Project) -> None:
    master = address_of_this_machine()
    seen = '{name: value for name, value in os.environ.items() if name.endswith("_SOCKET_IFNAME")}'
    project.program("toys.ok", BEGINNING.replace('host="here"', f'host="here", env={seen}') + END)
    project.define()
    words = ("--layout", "1+2", "--master", master or "127.0.0.1")
    node1 = by_hand(project, *words, "--node", "1")
    node0 = by_hand(project, *words, "--node", "0")
    (code0, said0), (code1, said1) = ended(node0), ended(node1)
    assert (code0, code1) == (0, 0), said0 + said1
    record = project.record()
    (row,) = json.loads(project.runner("summarize", "--format", "json").stdout)
    assert (row["layout"], row["n"]) == ("1+2", 1)
    assert [rank.get("node", 0) for rank in record["ranks"]] == [0, 1, 1]
    if master and (route := route_to(master)):
        assert f"{GLOO}={route.interface}" in said0
        for variable in (f'"{GLOO}": "{route.interface}"', f'"{NCCL}": "={route.interface}"'):
            assert variable in json.dumps(record)


@pytest.mark.slow
def test_a_node_without_the_results_folder_of_node_0_takes_the_id_that_it_prints(project: Project) -> None:
    project.define()
    node0 = by_hand(project, "--layout", "2x1", "--node", "0")
    assert node0.stderr is not None
    while not (said := re.search(r"need --run (\S+)", node0.stderr.readline())):
        pass
    other = project.root / "other"
    other.mkdir()
    node1 = by_hand(project, "--layout", "2x1", "--node", "1", "--run", said[1], "--results", str(other))
    (code0, said0), (code1, said1) = ended(node0), ended(node1)
    assert (code0, code1) == (0, 0), said0 + said1
    assert [path.parent.name for path in other.glob("tiny/*/run.json")] == [said[1]]
    (run,) = project.runs()
    assert run.name == said[1]
    assert "../x" in project.refused("node", "tiny", "--layout", "2x1", "--node", "1", "--run", "../x")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, "interrupted"), (signal.SIGKILL, "killed")])
def test_a_node_that_is_ended_is_known_to_have_been(project: Project, number: signal.Signals, status: str) -> None:
    project.program("toys.ok", BEGINNING + WAIT)
    project.define()
    process = by_hand(project, "--layout", "1x2")
    until(words_are_printed(project, "waits", 2))
    assert project.record()["status"] == "running"
    os.kill(process.pid, number)
    ended(process)
    (run,) = project.runs()
    until(lambda: project.runner("collect", run).code == 0)
    record = project.record()
    assert record["status"] == status
    assert record["events"]["seen"] == 4


def test_an_interface_is_chosen_only_where_no_person_did_and_the_master_is_another_machine() -> None:
    said: list[str] = []
    spec = NodeSpec(["torchrun"], {}, 1)
    for master in ("127.0.0.1", "localhost", "no-such-name.invalid"):
        assert on_the_route(spec, master, {}, said.append) == spec
    if master := address_of_this_machine():
        assert on_the_route(spec, master, {GLOO: "ib0", NCCL: "^docker"}, said.append) == spec
        assert said == []
        assert list(on_the_route(spec, master, {NCCL: "^docker"}, said.append).env) == [GLOO]
