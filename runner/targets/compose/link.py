"""A slow link between the nodes of a run: a limit to what each container sends.

A short-lived container in the network namespace of each node makes the queue; only that one may change the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from runner.core import clock
from runner.core.errors import RequestError
from runner.core.text import one_line, shown
from runner.targets.compose import shape
from runner.targets.compose.containers import LABEL

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

_RATE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(kbit|mbit|gbit)")
_UNITS = {"kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
_SLOWEST, _FASTEST = 64_000, 100 * 10**9
_SECONDS = 30
_FREEZES, _AGAIN_SECONDS = 20, 0.2
"""Attempts to pause a container: while it starts processes, the engine may give up freezing it."""
_AT_ONCE = 8
_WAIT_SECONDS = 0.05
"""How long a packet may wait before it is dropped."""
_BUCKET_SECONDS = 0.0005
"""What may leave at once after a pause; a kernel timer fills the bucket again in less."""
_SMALLEST_BURST = 65_536
"""One packet before segmentation; the kernel drops what is larger than the bucket."""


def parse_link(text: str) -> int:
    """Read a rate as tc writes it, for example `100mbit`, in bits a second; 0 for none; RequestError if wrong."""
    found = _RATE.fullmatch(text)
    bits = round(float(found[1]) * _UNITS[found[2]]) if found else 0
    if text and not _SLOWEST <= bits <= _FASTEST:
        raise RequestError(
            f"--with link={shown(text)}: write a rate from 64kbit to 100gbit, for example 100mbit or 1gbit"
        )
    return bits


def words_of(bits_per_second: int) -> list[str]:
    """Return what `shape` takes: bytes a second, the bucket's bytes and the queue's bytes."""
    rate = bits_per_second // 8
    burst = max(_SMALLEST_BURST, round(rate * _BUCKET_SECONDS))
    return [str(rate), str(burst), str(burst + round(rate * _WAIT_SECONDS))]


def slow_down(client: DockerClient, project: str, containers: Iterable[Container], bits_per_second: int) -> None:
    """Limit what the containers of a run send, paused meanwhile, so that nothing is measured before.

    Raises OSError, in one line, if the engine or the kernel refuses.
    """
    paused: list[Container] = []
    words = words_of(bits_per_second)
    try:
        for container in containers:
            pause(container)
            paused.append(container)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda container: _shape(client, project, container, words), paused))
    finally:
        for container in paused:
            container.unpause()


def pause(container: Container) -> None:
    """Pause a container; OSError if the engine cannot."""
    for left in reversed(range(_FREEZES)):
        try:
            container.pause()
        except OSError as error:  # the engine's own too; runc leaves trying again to its caller (its issue 4388)
            if "unable to freeze" not in str(error) or not left:
                raise
            clock.sleep(_AGAIN_SECONDS)
        else:
            return


def _shape(client: DockerClient, project: str, container: Container, words: list[str]) -> None:
    helper = client.containers.create(
        container.attrs["Image"],
        ["-c", Path(str(shape.__file__)).read_text("utf-8"), *words],
        entrypoint=["python3", "-I"],
        network_mode=f"container:{container.id}",
        cap_drop=["ALL"],
        cap_add=["NET_ADMIN"],
        user="0:0",
        labels={LABEL: project},
        log_config={"type": "json-file"},
    )
    try:
        helper.start()
        code = helper.wait(timeout=_SECONDS)["StatusCode"]
        said = one_line(helper.logs(tail=1).decode("utf-8", "replace"), 200)
    except OSError as error:  # the engine's own too
        said, code = one_line(error, 200), -1
    finally:
        helper.remove(force=True)
    if code:
        why = f"its link cannot be slowed down: {said or f'exit code {code}'}"
        raise OSError(f"{container.labels.get('com.docker.compose.service', 'a node')}: {why}; leave --with link= out")
