"""Checks of the Docker Engine, Compose, the image of a run, and a container of that image."""

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
from runner.tools.doctor.findings import Finding, of_error, ok, warning, wrong
from runner.tools.doctor.machine import check_difference, check_gpus, check_image_disk, check_machine, check_versions
from runner.tools.doctor.peers import check_variables

CONTAINER_SECONDS = 10
_REMOVE_SECONDS = 3
_FIRST_PYTHON = 'exec "$(command -v python3 || command -v python)" -c "$0"'


class Container:
    """A short-lived container of an image, set up like a node of a run."""

    def __init__(self) -> None:
        self._name = f"kit-doctor-{secrets.token_hex(4)}"
        self._client: subprocess.Popen[bytes] | None = None

    def gather(self, image: str, options: Options, *, gpus: bool) -> dict[str, Any]:
        """Return the facts that `inside.py` prints in the container. Raises RequestError if it prints none.

        Even if this process is killed, `inside.py` ends by itself, and --rm removes the container.
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
            raise RequestError(f"a container of {image} does not answer: {error.__class__.__name__}") from None
        return _facts(printed, errors.decode("utf-8", "replace"), image)

    def remove(self) -> None:
        """Remove the container if its script is still running."""
        if self._client and self._client.poll() is None:
            self._client.kill()
            words = ["docker", "rm", "--force", "--volumes", self._name]
            with suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(words, capture_output=True, timeout=_REMOVE_SECONDS, check=False)


def _facts(printed: bytes, errors: str, image: str) -> dict[str, Any]:
    for line in reversed(printed[-100_000:].decode("utf-8", "replace").splitlines()):
        if line.startswith(inside.MARK):
            with suppress(ValueError, RecursionError):
                facts = json.loads(line.removeprefix(inside.MARK))
                if isinstance(facts, dict):
                    return facts
    if "could not select device driver" in errors:
        msg = "the engine has no driver for NVIDIA GPUs: install the NVIDIA Container Toolkit, or use --device cpu"
        raise RequestError(msg)
    lines = [line for line in errors.splitlines() if line.strip() and not line.startswith(("Run 'dock", "See 'dock"))]
    last = lines[-1] if lines else "no output"
    raise RequestError(one_line(f"Python does not start in a container of {image}: {last}", 400))


def check_engine(options: Options, device: str, container: Container, name: str, where: str) -> list[Finding]:
    """Check the engine, Compose, the image, and a container of that image. `name` is the image's name without a tag."""
    named = options.image or os.environ.get("KIT_IMAGE")
    image, stage = named or image_of(name, device), "engine"
    findings: list[Finding] = []
    try:
        client = engine.reach()
        with engine.asked():
            info = client.info()
        findings.append(ok(stage, where, f"Docker Engine {info.get('ServerVersion')}"))
        with suppress(OSError):  # the folder is in a virtual machine, or only root sees it
            root = str(info.get("DockerRootDir"))
            findings.append(check_image_disk(root, shutil.disk_usage(root).free, where))
        engine.check_here(client)
        stage = "compose"
        engine.check_compose()
        findings.append(ok(stage, where, "Docker Compose is installed"))
        stage = "image"
        with engine.asked():
            is_there = engine.find_image(client, image) is not None
        if not is_there and named:
            return [*findings, wrong(stage, where, f"there is no image {image} here", f"docker pull {image}")]
        if not is_there:
            mend = f"the first run builds it on the base image named in {BASES[device]}"
            return [
                *findings,
                warning(stage, where, f"{image} is not built yet, so its inside is not checked", mend),
            ]
        findings.append(ok(stage, where, f"{image} exists"))
        stage = "container"
        engine.check_sizes(options.shm_size, options.memory, 1)
        facts = container.gather(image, options, gpus=device == "cuda")
    except RequestError as error:
        return [*findings, of_error(stage, where, error, "see docker info and docker ps")]
    place = f"container of {image}"
    findings += check_versions(facts, place, image=image)
    findings += check_difference(inside.versions(), facts, place)
    findings += check_machine(facts, place, shm_mend="--with shm_size=1gb")
    findings += check_gpus(facts, place, device=device, image=image)
    names = [name for name in facts["interfaces"] if name == "eth0"]
    mend = "docker network inspect bridge: a container needs a network to reach the others"
    interface = wrong("interface", place, "there is no interface eth0", mend)
    if names:
        interface = ok("interface", place, "eth0 connects the containers of a run")
    return [*findings, *check_variables(facts, place, names), interface]
