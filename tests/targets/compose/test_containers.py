"""Containers are followed to their end, and all of them are removed."""

import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from docker.errors import APIError, NotFound
from docker.models.containers import ContainerCollection

from runner.records.schema import NodeExit
from runner.targets.compose.containers import ContainerNode, of_project, remove_all


def test_a_look_into_a_container_that_hangs_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.targets.node_view.SECONDS", 0.2)
    node, ended = ContainerNode(1), threading.Event()
    node.attach(MagicMock(exec_run=lambda _command: ended.wait()), (tmp_path / "agent.log").open("wb"))
    view = node.look(abort=False)
    ended.set()
    assert "0.2 s" in (view.trouble or "")


@pytest.mark.parametrize("fault", [ConnectionError("engine \x1b[2J gone"), ValueError("a chunk that makes no sense")])
def test_a_broken_connection_ends_the_node_and_its_log_says_so(tmp_path: Path, fault: Exception) -> None:
    def chunks(**_: bool) -> Iterator[bytes]:
        yield b"one\n"
        raise fault

    node, log = ContainerNode(0), tmp_path / "agent.log"
    node.attach(MagicMock(logs=chunks), log.open("wb"))
    node.wait(60)
    assert node.exit == NodeExit(0)
    assert log.read_text().startswith("one\nrunner: ")
    assert "\x1b" not in log.read_text()


def test_a_container_that_the_engine_does_not_remove_keeps_nothing_else_from_being_removed() -> None:
    refusal = APIError("driver failed to remove its root filesystem")
    *containers, network = (MagicMock(labels={}) for _ in range(4))
    containers[0].remove.side_effect = refusal
    containers[1].remove.side_effect = NotFound("somebody was faster")
    client = MagicMock()
    client.containers.list.return_value, client.networks.list.return_value = containers, [network]
    with pytest.raises(APIError) as raised:
        remove_all(client, "kit-run")
    assert raised.value is refusal
    assert [thing.remove.call_count for thing in (*containers, network)] == [1] * 4


def test_a_container_that_ends_while_all_are_listed_is_left_out() -> None:
    client = MagicMock()
    client.api.containers.return_value = [{"Id": "gone"}, {"Id": "there"}]
    there = {"Id": "there", "Name": "/there", "Config": {"Labels": {}}}
    client.api.inspect_container.side_effect = [NotFound("no such container"), there]
    client.containers = ContainerCollection(client)
    assert list(of_project(client, "kit-run")) == ["there"]
