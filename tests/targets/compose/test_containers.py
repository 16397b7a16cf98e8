"""Containers are followed to their end, and all of them are removed."""

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO
from unittest.mock import Mock

import pytest
from docker.errors import APIError, NotFound
from docker.models.containers import ContainerCollection

from runner.records.schema import NodeExit
from runner.targets.compose.containers import ContainerNode, of_project, remove_all
from tests.support.launches import until


class Container:
    """A stand-in for docker's class."""

    def __init__(self, chunks: list[bytes], state: dict[str, Any], fault: Exception | None = None) -> None:
        self.chunks, self.fault = chunks, fault
        self.attrs = {"State": state}

    def logs(self, *, stream: bool, follow: bool) -> Iterator[bytes]:
        assert stream
        assert follow
        yield from self.chunks
        if self.fault:
            raise self.fault

    def wait(self) -> None:
        pass

    reload = wait


def followed_of(number: int, container: Container, output: BinaryIO) -> ContainerNode:
    node = ContainerNode(number)
    node.attach(container, output)  # type: ignore[arg-type]
    return node


def test_a_look_into_a_container_that_hangs_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.targets.node_view.SECONDS", 0.2)
    container, ended = Container([], {"ExitCode": 0}), threading.Event()
    container.exec_run = lambda _command: ended.wait()
    view = followed_of(1, container, (tmp_path / "agent.log").open("wb")).look(abort=False)
    ended.set()
    assert "0.2 s" in (view.trouble or "")


@pytest.mark.parametrize("fault", [ConnectionError("engine \x1b[2J gone"), ValueError("a chunk that makes no sense")])
def test_a_broken_connection_ends_the_node_and_its_log_says_so(tmp_path: Path, fault: Exception) -> None:
    log = tmp_path / "agent.log"
    followed = followed_of(0, Container([b"one\n"], {}, fault), log.open("wb"))
    until(lambda: followed.ended)
    assert followed.exit == NodeExit(0)
    assert followed.failed
    assert log.read_text().startswith("one\nrunner: ")
    assert "\x1b" not in log.read_text()


def test_a_container_that_the_engine_does_not_remove_keeps_nothing_else_from_being_removed() -> None:
    removed: list[str] = []
    refusal = APIError("driver failed to remove its root filesystem")

    def removable(name: str, error: APIError | None = None) -> SimpleNamespace:
        def remove(**_: bool) -> None:
            if error:
                raise error
            removed.append(name)

        return SimpleNamespace(name=name, labels={}, remove=remove)

    containers = [removable("0", refusal), removable("1", NotFound("somebody was faster")), removable("2")]
    holding = {"containers": containers, "networks": [removable("default")]}
    lists = {kind: SimpleNamespace(list=lambda found=found, **_: found) for kind, found in holding.items()}
    with pytest.raises(APIError, match="driver failed") as raised:
        remove_all(SimpleNamespace(**lists), "kit-run")
    assert raised.value is refusal
    assert removed == ["2", "default"]


def test_a_container_that_ends_while_all_are_listed_is_left_out() -> None:
    client = Mock()
    client.api.containers.return_value = [{"Id": "gone"}, {"Id": "there"}]
    there = {"Id": "there", "Name": "/there", "Config": {"Labels": {}}}
    client.api.inspect_container.side_effect = [NotFound("no such container"), there]
    client.containers = ContainerCollection(client)
    assert list(of_project(client, "kit-run")) == ["there"]
