"""One node of a layout as a service of a compose file, for the files of `compose/` and the target.

torchrun kills a worker that ignores SIGTERM after 30 s, so a container's grace is longer.
"""

from typing import Any

from runner.core.network import variables_for
from runner.targets.observing import COPY, variables

KIT = "distributed-experiment-kit"
"""The default image of a project."""
STAGES = {"cpu": "cpu", "cuda": "gpu"}
"""The Dockerfile's target of each device, which is also the image's tag."""
BASES = {"cpu": "CPU_BASE_IMAGE", "cuda": "BASE_IMAGE"}
"""The build argument that names the base image of each device."""
REVISION = "REVISION"
"""The build argument for the commit that the image is built from."""
WORKSPACE = "/workspace"
"""Where the project is in the image."""
READ_ONLY = ":ro"
_OBSERVER = "/kit-observer"


def image_of(name: str, device: str) -> str:
    """Return the image of a device, as a build names it; `name` is that of the settings, without a tag."""
    return f"{name or KIT}:{STAGES[device]}"


def default_image(name: str, device: str) -> str:
    """Return the image of a device in Compose's words: the variable KIT_IMAGE names another one."""
    return f"${{KIT_IMAGE:-{image_of(name, device)}}}"


def service(
    node: int,
    *,
    image: str,
    command: list[str] | str,
    environment: dict[str, str],
    binds: dict[str, str],
    gpus: list[str] | int | None = None,
    nodes: int = 1,
    build: dict[str, Any] | None = None,
    shm: str = "${KIT_SHM:-1gb}",
    memory: str = "${KIT_MEMORY:-0}",
    cpus: float = 0,
) -> dict[str, Any]:
    """Describe one node; its name, also on the network, is `node<number>`.

    `binds` are folders of the host by their place in the container, with `:ro` if read only; `gpus` is how many it may
    use, or which. NCCL and data loaders pass data over /dev/shm, for which Docker's 64 MB are too few. For memory and
    cores (on average over 0.1 s) 0 is no limit.
    """
    variables = {**environment, **(variables_for("eth0") if nodes > 1 else {})}
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
    """Bring the observer of scripts into a node; `search` is the PYTHONPATH of its image, if the node has none."""
    environment = described["environment"]
    found_first = variables(_OBSERVER, environment.get("PYTHONPATH") or literal(search))
    volumes = [*described["volumes"], _bind(f"../{COPY}", f"{_OBSERVER}{READ_ONLY}")]
    return {**described, "environment": {**environment, **found_first}, "volumes": volumes}


def build(device: str, bases: dict[str, str]) -> dict[str, Any]:
    """Describe how the image of a device is made from the project's folder and a base image."""
    base = BASES[device]
    args = {base: f"${{{base}:-{bases[base]}}}"}
    args |= {name: f"${{{name}:-}}" for name in ([REVISION, "TORCH_CPU"] if device == "cpu" else [REVISION])}
    return {"context": "..", "target": STAGES[device], "args": args}


def literal(text: str) -> str:
    """Keep Compose from reading a variable into a text."""
    return text.replace("$", "$$")


def _bind(source: str, place: str) -> dict[str, Any]:
    """Mount a folder that has to exist: one that Docker makes belongs to root."""
    target = place.removesuffix(READ_ONLY)
    only = {"read_only": True} if target != place else {}
    return {"type": "bind", "source": source, "target": target, **only, "bind": {"create_host_path": False}}
