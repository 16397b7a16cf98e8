"""Connect to the Docker Engine and check it before anything is started."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.targets.compose.containers import made

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.images import Image

SHM_OF_A_PROCESS = 32 * 2**20
"""Bytes of /dev/shm that NCCL's shared-memory transport needs per process."""
_SECONDS = 60
_PROBE = "distributed-experiment-kit-probe"
_EMPTY_TAR = bytes(10_240)
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@cache
def reach() -> DockerClient:
    """Connect to the engine that the docker command uses. Raises RequestError if the engine does not answer."""
    import docker  # importing docker is slow
    from docker.errors import DockerException

    host = os.environ.get("DOCKER_HOST") or _context_host()
    try:
        _connect_once(host)
        client = docker.DockerClient(base_url=host, timeout=_SECONDS)
        client.ping()
    except (DockerException, OSError) as error:
        place = host or "unix:///var/run/docker.sock"
        if "Permission" in f"{error} {error.__cause__} {error.__context__}":
            way = "join the group docker, or use sudo"
            raise RequestError(f"no permission for the Docker Engine at {place}: {way}") from None
        way = "start it, or name another one with DOCKER_HOST"
        raise RequestError(one_line(f"no Docker Engine answers at {place}: {way}: {error}")) from None
    return client


def _connect_once(host: str | None) -> None:
    """Raise OSError if the host is a Unix socket at which nothing listens: docker's client would leak a socket."""
    from docker.utils import parse_host

    address = urlsplit(parse_host(host))
    if address.scheme == "http+unix":
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_SECONDS)
            probe.connect(f"/{(address.netloc + address.path).lstrip('/')}")


def check_here(client: DockerClient) -> None:
    """Raise RequestError if the engine is on another machine: containers would mount that machine's folders."""
    host = urlsplit(client.api.base_url)
    if host.scheme in ("http", "https") and host.hostname not in ("localhost", "127.0.0.1", "::1", "localunixsocket"):
        raise RequestError(f"the engine on {host.hostname} cannot mount this machine's folders: start the run there")


@cache
def check_compose() -> None:
    """Raise RequestError if the docker command or its Compose plugin is missing."""
    words = ["docker", "compose", "version", "--short"]
    try:
        done = subprocess.run(words, capture_output=True, timeout=_SECONDS, check=False)
    except FileNotFoundError:
        raise RequestError("there is no docker command on the PATH: install it and its Compose plugin") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RequestError(one_line(f"docker compose does not answer: {error}")) from None
    if done.returncode:
        raise RequestError("docker has no Compose plugin: install the package docker-compose-plugin")


def check_sizes(shm_size: str, memory: str, processes: int) -> None:
    """Raise RequestError if a size is invalid, or if `shm_size` is too small for NCCL."""
    from docker.errors import DockerException
    from docker.utils import parse_bytes

    least = processes * SHM_OF_A_PROCESS
    for option, text in (("memory", memory), ("shm_size", shm_size)):
        try:
            size = int(parse_bytes(text))
        except (DockerException, ValueError):
            raise RequestError(f"--with {option}={text}: write a size, for example 512mb or 4gb") from None
        if option == "shm_size" and size < least:
            raise RequestError(f"--with {option}={text}: a node of {processes} processes needs {least >> 20}mb or more")


@cache
def check_gpus(client: DockerClient) -> None:
    """Ask the engine to start a container with a GPU. Raises RequestError if the engine has no GPU driver."""
    from docker.errors import APIError
    from docker.types import DeviceRequest

    image = f"{_PROBE}:{os.getpid()}"
    client.api.import_image_from_data(_EMPTY_TAR, repository=_PROBE, tag=str(os.getpid()))
    gpu = DeviceRequest(driver="nvidia", count=1, capabilities=[["gpu"]])
    try:
        with made(client, image, ["/nothing"], device_requests=[gpu], network_mode="none") as container:
            container.start()
    except APIError as error:
        if "could not select device driver" in str(error.explanation):
            raise RequestError(
                "the engine has no driver for NVIDIA GPUs: install the NVIDIA Container Toolkit, or use --device cpu"
            ) from None
    finally:
        with suppress(APIError):
            client.images.remove(image, force=True)


def check_architecture(client: DockerClient, image: dict[str, Any], name: str) -> None:
    """Raise RequestError if an image is for another processor architecture."""
    machine = str(client.info()["Architecture"])
    needed, has = _MACHINES.get(machine, machine), image.get("Architecture")
    if has and has != needed:
        raise RequestError(f"the image {name} is for {has} but this machine is {needed}: build it here")


def find_image(client: DockerClient, name: str) -> Image | None:
    """Return the image of this name or id, or None if the engine does not have it. Pulls no image."""
    from docker.errors import ImageNotFound, NullResource

    try:
        return client.images.get(name)
    except (ImageNotFound, NullResource):
        return None


def search_path(client: DockerClient, image: str) -> str:
    """Return the PYTHONPATH that an image sets, or "" if it sets none."""
    found = find_image(client, image)
    words = (found.attrs["Config"]["Env"] if found else None) or []
    return next((word.partition("=")[2] for word in words if word.startswith("PYTHONPATH=")), "")


def is_rootless(client: DockerClient) -> bool:
    """Return whether the engine is rootless. If so, root in a container is the user who runs the engine."""
    return any("rootless" in option for option in client.info().get("SecurityOptions") or [])


@contextmanager
def asked() -> Iterator[None]:
    """Raise RequestError if the engine reports an error or the connection to it breaks."""
    from docker.errors import DockerException

    try:
        yield
    except (DockerException, OSError) as error:
        raise RequestError(one_line(f"the Docker Engine: {error}")) from None


def _context_host() -> str | None:
    from docker.context import ContextAPI

    with suppress(Exception):
        context = ContextAPI.get_current_context()
        return str(context.Host) if context and context.Host else None
    return None
