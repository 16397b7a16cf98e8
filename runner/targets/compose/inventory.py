"""What is installed in an image, as its own Python and its own dpkg say: asked in a container without a network."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.targets.compose import engine
from runner.targets.compose.containers import made
from runner.targets.compose.image_files import read_files

if TYPE_CHECKING:
    from docker import DockerClient

SECONDS = 120
LARGEST_ANSWER = 50_000_000
MEMORY = "1g"
PYTHONS = ("python", "python3")
NOT_FOUND = (126, 127)
# It runs under any Python 3.8 or later of an image, and changes nothing. Licences of Debian's packages are named in
# machine-readable copyright files (Debian policy, DEP-5) only.
ASK = r"""
import json, re
from importlib import metadata
def read(path, most=20000000):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(most)
    except OSError:
        return ""
python = []
for one in metadata.distributions():
    said = one.metadata
    classifiers = [word for word in said.get_all("Classifier") or [] if word.startswith("License :: ")]
    row = [(said.get_all(field) or [None])[0] for field in ("Name", "Version", "License-Expression")]
    row += [(said.get_all("License") or [""])[0][:200], classifiers]
    python.append([None if part is None else part if isinstance(part, list) else str(part) for part in row])
    python[-1].append(str(one.locate_file("")))
status = read("/var/lib/dpkg/status")
licences = {}
for name in re.findall(r"^Package: (\S+)$", status, re.M):
    text = read("/usr/share/doc/" + name + "/copyright", 200000)
    if text.startswith("Format:"):
        licences[name] = sorted(set(re.findall(r"^License: (\S.{0,80})$", text, re.M)))
print(json.dumps({"python": python, "dpkg": status, "os": read("/etc/os-release"), "copyright": licences}))
"""


def inventory(name: str) -> tuple[dict[str, Any], str]:
    """Ask an image what is installed in it; return what it says, and its id.

    Args:
        name: its name or id.

    Raises RequestError if no engine is reachable, it lacks the image, or the image cannot say it.
    """
    from docker.errors import ImageNotFound, NullResource  # noqa: PLC0415 - imported on use

    client = engine.reach()
    try:
        with engine.asked():
            try:
                image = client.images.get(name)
            except (ImageNotFound, NullResource):
                msg = f"the image {one_line(name, 200)} is not there: docker pull {one_line(name, 200)}, or build it"
                raise RequestError(msg) from None
            for python in PYTHONS:
                if (answer := _ask(client, str(image.id), python)) is not None:
                    return answer, str(image.id)
            files = read_files(client, str(image.id), "/", ["var/lib/dpkg/status", "etc/os-release"])
    finally:
        client.close()
    told = {path.rpartition("/")[2]: data.decode("utf-8", "replace") for path, data in files.items()}
    return {"python": [], "dpkg": told.get("status", ""), "os": told.get("os-release", "")}, str(image.id)


def _ask(client: DockerClient, image: str, python: str) -> dict[str, Any] | None:
    """Run the question in a container; None if the image has no such Python."""
    from docker.errors import APIError  # noqa: PLC0415
    from requests.exceptions import RequestException  # noqa: PLC0415

    with made(
        client,
        image,
        ["-c", ASK],
        entrypoint=[python],
        network_mode="none",
        read_only=True,
        mem_limit=MEMORY,
        log_config={"type": "json-file"},
    ) as container:
        try:
            container.start()
        except APIError:
            return None
        try:
            code = container.wait(timeout=SECONDS)["StatusCode"]
        except RequestException:
            msg = f"the image {image[:19]} does not say within {SECONDS} s what is installed in it"
            raise RequestError(msg) from None
        if code in NOT_FOUND:
            return None
        chunks, size = [], 0
        for chunk in container.logs(stdout=True, stderr=bool(code), stream=True):
            chunks.append(chunk)
            size += len(chunk)
            if size > LARGEST_ANSWER:
                break
    text = b"".join(chunks).decode("utf-8", "replace")
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        last = one_line((text.strip().splitlines() or ["nothing"])[-1], 200)
        msg = f"the image {image[:19]} cannot say what is installed in it: {last}"
        raise RequestError(msg)
    return told
