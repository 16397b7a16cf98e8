"""Slow down the network between nodes by limiting the sending rate of each container.

A helper container in each node's network namespace sets the limit, because the nodes' containers may not set it.
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
"""Attempts to pause a container, and their interval: freezing may fail while the container starts processes."""
_AT_ONCE = 8
_WAIT_SECONDS = 0.05
"""Longest time that a packet waits; packets that would wait longer are dropped."""
_BUCKET_SECONDS = 0.0005
"""Size of the token bucket as sending time; a kernel timer refills the bucket in less time."""
_SMALLEST_BURST = 65_536
"""Bytes of the largest packet before segmentation; the kernel drops packets larger than the bucket."""


def parse_link(text: str) -> int:
    """Return a rate such as `100mbit` in bits per second. Returns 0 if empty. Raises RequestError if invalid."""
    found = _RATE.fullmatch(text)
    bits = round(float(found[1]) * _UNITS[found[2]]) if found else 0
    if text and not _SLOWEST <= bits <= _FASTEST:
        raise RequestError(
            f"--with link={shown(text)}: write a rate from 64kbit to 100gbit, for example 100mbit or 1gbit"
        )
    return bits


def words_of(bits_per_second: int) -> list[str]:
    """Return the arguments of `shape.py`: bytes per second, bytes of the bucket and bytes of the queue."""
    rate = bits_per_second // 8
    burst = max(_SMALLEST_BURST, round(rate * _BUCKET_SECONDS))
    return [str(rate), str(burst), str(burst + round(rate * _WAIT_SECONDS))]


def slow_down(client: DockerClient, project: str, containers: Iterable[Container], bits_per_second: int) -> None:
    """Limit the sending rate of a run's containers. They are paused meanwhile, so that nothing runs without the limit.

    Raises OSError if the engine or the kernel refuses a request.
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
    """Pause a container. Raises OSError if the engine cannot pause it."""
    for left in reversed(range(_FREEZES)):
        try:
            container.pause()
        except OSError as error:  # docker's errors too; runc leaves retries to its caller (runc issue 4388)
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
    except OSError as error:  # docker's errors too
        said, code = one_line(error, 200), -1
    finally:
        helper.remove(force=True)
    if code:
        why = f"its link cannot be slowed down: {said or f'exit code {code}'}"
        raise OSError(f"{container.labels.get('com.docker.compose.service', 'a node')}: {why}; leave --with link= out")
