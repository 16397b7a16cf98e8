"""One node of a layout as a service of a compose file; the files of `compose/` and the target share it.

Sources: the Compose specification, and torchrun (it kills a worker that ignores SIGTERM after 30 s, so a container's
grace is longer).
"""

from __future__ import annotations

from typing import Any

IMAGES = {"cpu": "distributed-experiment-kit:cpu", "cuda": "distributed-experiment-kit:gpu"}
"""The image of each device, as a build names it."""
STAGES = {"cpu": "cpu", "cuda": "gpu"}
"""The Dockerfile's target of each device."""
BASES = {"cpu": "CPU_BASE_IMAGE", "cuda": "BASE_IMAGE"}
"""The build argument that names the base image of each device."""
WORKSPACE = "/workspace"
"""Where the project is in the image."""


def service(
    node: int,
    *,
    device: str,
    command: list[str] | str,
    environment: dict[str, str],
    binds: dict[str, str],
    gpus: list[str] | int | None = None,
    nodes: int = 1,
    build: dict[str, Any] | None = None,
    image: str = "",
    shm: str = "${KIT_SHM:-1gb}",
    memory: str = "${KIT_MEMORY:-0}",
) -> dict[str, Any]:
    """Describe one node.

    Args:
        node: its number; its name, on the network too, is `node<number>`.
        device: `cpu` or `cuda`, which chooses the image.
        command: what it runs.
        environment: its variables on top of the image's own.
        binds: folders of the host by their place in the container; a place that ends in `:ro` is read only.
        gpus: how many GPUs it may use, or which; none if None.
        nodes: how many nodes there are.
        build: how the image is made if it is missing.
        image: another image than the device's.
        shm: the size of /dev/shm, over which NCCL and data loaders pass data; Docker's default of 64 MB is too small.
        memory: the most memory that it may use; 0 is no limit.
    """
    network = {"GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "=eth0"} if nodes > 1 else {}
    described: dict[str, Any] = {
        "image": image or f"${{KIT_IMAGE:-{IMAGES[device]}}}",
        **({"build": build} if build else {}),
        "hostname": f"node{node}",
        "init": True,
        "user": "${KIT_UID:-0}:${KIT_GID:-0}",
        "command": command,
        "environment": {**environment, **network},
        "volumes": [_bind(source, place) for place, source in binds.items()],
        "shm_size": shm,
        "mem_limit": memory,
        "ulimits": {"stack": 67108864},
    }
    if not described["environment"]:
        del described["environment"]
    if gpus is not None:
        which = {"count": gpus} if isinstance(gpus, int) else {"device_ids": gpus}
        reserved = {"driver": "nvidia", **which, "capabilities": ["gpu"]}
        described["deploy"] = {"resources": {"reservations": {"devices": [reserved]}}}
    return {
        **described,
        "restart": "no",
        "stop_grace_period": "60s",
        "logging": {"driver": "local", "options": {"max-size": "50m", "max-file": "4"}},
    }


def build(device: str, context: str, bases: dict[str, str]) -> dict[str, Any]:
    """Describe how the image of a device is made from the project's folder and a base image."""
    base = BASES[device]
    args = {base: f"${{{base}:-{bases[base]}}}"}
    if device == "cpu":
        args["TORCH_CPU"] = "${TORCH_CPU:-}"
    return {"context": context, "target": STAGES[device], "args": args}


def _bind(source: str, place: str) -> dict[str, Any]:
    """Mount a folder that has to exist: one that Docker makes belongs to root."""
    target, _, read_only = place.partition(":")
    only = {"read_only": True} if read_only else {}
    return {"type": "bind", "source": source, "target": target, **only, "bind": {"create_host_path": False}}
