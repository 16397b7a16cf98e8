"""What a container prints is kept byte for byte, a full disk ends the run and not only a thread, and all is removed."""

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import pytest
from docker import DockerClient
from docker.errors import APIError, NotFound

from runner.targets.compose.containers import LABEL, ContainerNode, of_project, remove_all
from runner.targets.node_view import NodeView
from tests.support.launches import until


class Container:
    """What the followed container does, as docker's own class has it."""

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
    container.exec_run = lambda _command: ended.wait()  # the engine waits for a container in which nothing starts
    view = followed_of(1, container, (tmp_path / "agent.log").open("wb")).look(abort=False)
    ended.set()
    assert "0.2 s" in (view.trouble or "")


@pytest.mark.parametrize("fault", [ConnectionError("engine \x1b[2J gone"), ValueError("a chunk that makes no sense")])
def test_a_connection_that_breaks_in_any_way_ends_the_node_and_is_said_in_its_log(
    tmp_path: Path, fault: Exception
) -> None:
    output = (tmp_path / "agent.log").open("wb")
    followed = followed_of(0, Container([b"one\n"], {}, fault), output)
    until(lambda: followed.ended)
    assert followed.exit
    assert (followed.exit.code, followed.exit.signal, followed.failed) == (None, None, True)
    text = (tmp_path / "agent.log").read_text()
    assert text.startswith("one\nrunner: the container cannot be followed any more: ")
    assert "\x1b" not in text
    assert threading.active_count() < 50


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


def test_a_container_that_goes_while_all_are_listed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    client = DockerClient("unix:///nowhere.sock", version="1.41")

    def inspect(container: str) -> dict[str, Any]:
        if container == "gone":
            raise NotFound("no such container")
        return {"Id": container, "Name": f"/{container}", "Config": {"Labels": {LABEL: "kit-run"}}}

    monkeypatch.setattr(client.api, "containers", lambda **_: [{"Id": "gone"}, {"Id": "there"}])
    monkeypatch.setattr(client.api, "inspect_container", inspect)
    assert list(of_project(client, "kit-run")) == ["there"]
    client.close()
