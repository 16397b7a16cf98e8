"""The Docker Engine, Compose, the image that a run would use, and what programs see inside a container of it."""

import json
import os
import secrets
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.targets.compose import engine
from runner.targets.compose.service import BASES, image_of
from runner.targets.compose.target import Options
from runner.tools.doctor import inside
from runner.tools.doctor.finding import Finding, ok, warning, wrong
from runner.tools.doctor.gpus import check_gpus
from runner.tools.doctor.machine import check_difference, check_image_disk, check_machine, check_versions
from runner.tools.doctor.network import check_variables

CONTAINER_SECONDS = 10
_REMOVE_SECONDS = 3
_FIRST_PYTHON = 'exec "$(command -v python3 || command -v python)" -c "$0"'


class Container:
    """One container of the image, set up as a node of a run; it is removed whatever happens."""

    def __init__(self) -> None:
        self._name = f"kit-doctor-{secrets.token_hex(4)}"
        self._client: subprocess.Popen[bytes] | None = None

    def gather(self, image: str, options: Options, *, gpus: bool) -> dict[str, Any]:
        """Gather the facts inside; RequestError says why that cannot be done.

        The script in it ends by itself, and the engine removes the container then, also if this process is killed.
        """
        words = ["docker", "run", "--rm", "--init", "--pull=never", "--name", self._name, "--network", "bridge"]
        words += ["--log-driver", "none", "--hostname", "node0", "--entrypoint", "sh", "--shm-size", options.shm_size]
        words += ["--memory", options.memory] if options.memory != "0" else []
        words += ["--gpus", "all"] if gpus else []
        words += [image, "-c", _FIRST_PYTHON, Path(inside.__file__).read_text("utf-8")]
        nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
        try:
            self._client = subprocess.Popen(words, stdin=nothing, stdout=pipe, stderr=pipe)
            printed, errors = self._client.communicate(timeout=CONTAINER_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RequestError(
                one_line(f"a container of {image} gives no answer: {error.__class__.__name__}")
            ) from None
        return _facts(printed, errors.decode("utf-8", "replace"), image)

    def remove(self) -> None:
        """Remove the container if it is still there."""
        if self._client and self._client.poll() is None:
            self._client.kill()
            words = ["docker", "rm", "--force", "--volumes", self._name]
            with suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(words, capture_output=True, timeout=_REMOVE_SECONDS, check=False)


def _facts(printed: bytes, errors: str, image: str) -> dict[str, Any]:
    """Read the line of facts among whatever an image prints at its start."""
    for line in reversed(printed[-100_000:].decode("utf-8", "replace").splitlines()):
        if line.startswith(inside.MARK):
            try:
                facts = json.loads(line.removeprefix(inside.MARK))
            except (ValueError, RecursionError):
                continue
            if isinstance(facts, dict):
                return facts
    if "could not select device driver" in errors:
        msg = "the engine has no driver for NVIDIA GPUs: install the NVIDIA Container Toolkit, or use --device cpu"
        raise RequestError(msg)
    said = [
        line for line in errors.splitlines() if line.strip() and not line.startswith(("Run 'docker", "See 'docker"))
    ]
    last = said[-1] if said else "it printed nothing"
    raise RequestError(one_line(f"Python does not start in a container of {image}: {last}", 400))


def gather(options: Options, device: str, container: Container, name: str = "") -> dict[str, Any]:
    """Gather all facts about the engine; what is missing is `problem`, and what follows from it is left out.

    `name` is the image of the project's settings, without a tag.
    """
    named = options.image or os.environ.get("KIT_IMAGE")
    facts: dict[str, Any] = {"image": named or image_of(name, device), "is_built": not named}
    try:
        client = engine.reach()
        with engine.asked():
            info = client.info()
        facts |= {"engine": str(info.get("ServerVersion")), "root": str(info.get("DockerRootDir") or "")}
        with suppress(OSError):  # an engine in a virtual machine, or a folder that only root sees
            facts["root_bytes"] = shutil.disk_usage(facts["root"]).free
        engine.check_here(client)
        facts["stage"] = "compose"
        engine.check_compose()
        facts["stage"] = "image"
        with engine.asked():
            facts["image_there"] = engine.find_image(client, facts["image"]) is not None
        if facts["image_there"]:
            facts["stage"] = "container"
            engine.check_sizes(options.shm_size, options.memory, 1)
            facts["inside"] = container.gather(facts["image"], options, gpus=device == "cuda")
    except RequestError as error:
        facts["problem"] = str(error)
    return facts


def check(facts: dict[str, Any], here: dict[str, Any], where: str, device: str) -> list[Finding]:
    """Check what `gather` found: engine, Compose, image, and the inside of a container."""
    found: list[Finding] = []
    problem, stage = facts.get("problem", ""), facts.get("stage", "engine")
    if "engine" in facts:
        found.append(ok("engine", where, f"Docker Engine {facts['engine']}"))
        found += check_image_disk(facts["root"], facts.get("root_bytes"), where)
    found += [ok("compose", where, "Docker Compose is there")] if stage not in ("engine", "compose") else []
    if problem:
        seen, colon, mend = problem.partition(": ")
        return [*found, wrong(stage, where, seen if colon else problem, mend or "docker info, docker ps say more")]
    image = facts["image"]
    if not facts.get("image_there"):
        if not facts.get("is_built"):
            return [*found, wrong("image", where, f"the image {image} is not there", f"docker pull {image}")]
        mend = f"the first run builds it, on the base image that {BASES[device]} names"
        return [*found, warning("image", where, f"{image} is not there yet, so its inside is not checked", mend)]
    inner, place = facts["inside"], f"container of {image}"
    found.append(ok("image", where, f"{image} is there"))
    found += check_versions(inner, place, image=image)
    found += check_difference(here, inner, place)
    found += check_machine(inner, place, shm_mend="--with shm_size=1gb")
    found += check_gpus(inner, place, device=device, image=image)
    return found + _check_network(inner, place)


def _check_network(inner: dict[str, Any], place: str) -> list[Finding]:
    """Look for eth0, which the containers of a run of several nodes use."""
    names = inner.get("interfaces") or []
    found = check_variables(inner, place, ["eth0"] if "eth0" in names else [])
    if "eth0" not in names:
        mend = "docker network inspect bridge: a container needs a network to reach the others"
        return [*found, wrong("interface", place, "there is no interface eth0", mend)]
    return [*found, ok("interface", place, "eth0 connects the containers of a run")]
