"""Describe one node of a layout as a service of a compose file."""

from collections.abc import Mapping
from typing import Any

from runner.core.network import variables_for
from runner.targets.observing import COPY, variables

KIT = "distributed-experiment-kit"
"""Default image name of a project."""
STAGES = {"cpu": "cpu", "cuda": "gpu"}
"""Dockerfile target and image tag for each device."""
BASES = {"cpu": "CPU_BASE_IMAGE", "cuda": "BASE_IMAGE"}
"""Build argument for the base image of each device."""
REVISION = "REVISION"
"""Build argument for the image's commit."""
WORKSPACE = "/workspace"
"""The project's folder in the image."""
READ_ONLY = ":ro"
_OBSERVER = "/kit-observer"


def image_of(name: str, device: str) -> str:
    """Return the tagged image name for a device. `name`, from the settings, has no tag."""
    return f"{name or KIT}:{STAGES[device]}"


def default_image(name: str, device: str) -> str:
    """Return the image for a device as a Compose expression that KIT_IMAGE overrides."""
    return f"${{KIT_IMAGE:-{image_of(name, device)}}}"


def service(
    node: int,
    *,
    image: str,
    command: list[str] | str,
    environment: Mapping[str, str | None],
    binds: dict[str, str],
    gpus: list[str] | int | None = None,
    nodes: int = 1,
    build: dict[str, Any] | None = None,
    shm: str = "${KIT_SHM:-1gb}",
    memory: str = "${KIT_MEMORY:-0}",
    cpus: float = 0,
) -> dict[str, Any]:
    """Return the service of a node, whose host name is `node<number>`.

    `binds` maps paths in the container to folders of the host; read-only paths end with `:ro`. `gpus` is a count or a
    list of ids. NCCL and data loaders need more /dev/shm than Docker's 64 MB. `memory` or `cpus` of 0 means no limit.
    Cores are averaged over 0.1 s. The grace period exceeds the 30 s after which torchrun kills a worker.
    """
    network = variables_for("eth0") if nodes > 1 else {}
    variables = {**environment, **{name: value for name, value in network.items() if name not in environment}}
    described: dict[str, Any] = {
        "image": image,
        **({"build": build} if build else {}),
        "hostname": f"node{node}",
        "init": True,
        "user": "${KIT_UID:-0}:${KIT_GID:-0}",
        "command": command,
        **({"environment": variables} if variables else {}),
        "volumes": [_bind(source, place) for place, source in binds.items()],
        "shm_size": shm,
        "mem_limit": memory,
        **({"cpus": cpus} if cpus else {}),
        "ulimits": {"stack": 67108864},
    }
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


def observed(described: dict[str, Any], search: str) -> dict[str, Any]:
    """Add the observer of scripts to a service. `search` is the image's PYTHONPATH."""
    environment = described["environment"]
    found_first = variables(_OBSERVER, environment.get("PYTHONPATH") or literal(search))
    volumes = [*described["volumes"], _bind(f"../{COPY}", f"{_OBSERVER}{READ_ONLY}")]
    return {**described, "environment": {**environment, **found_first}, "volumes": volumes}


def build(device: str, bases: dict[str, str]) -> dict[str, Any]:
    """Return the build section for the image of a device."""
    base = BASES[device]
    args = {base: f"${{{base}:-{bases[base]}}}"}
    args |= {name: f"${{{name}:-}}" for name in ([REVISION, "TORCH_CPU"] if device == "cpu" else [REVISION])}
    return {"context": "..", "target": STAGES[device], "args": args}


def literal(text: str) -> str:
    """Escape a text so that Compose expands no variable in it."""
    return text.replace("$", "$$")


def _bind(source: str, place: str) -> dict[str, Any]:
    """Return the mount of a folder. The folder must exist: if Docker created it, it would belong to root."""
    target = place.removesuffix(READ_ONLY)
    only = {"read_only": True} if target != place else {}
    return {"type": "bind", "source": source, "target": target, **only, "bind": {"create_host_path": False}}
