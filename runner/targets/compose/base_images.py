"""`containers/image.lock`: the images that ours are built on, each with its digest if a person has pinned it."""

import re
from pathlib import Path

from runner.core.errors import RequestError
from runner.core.text import one_line
from trainkit import files

LOCK = "containers/image.lock"
LARGEST_BYTES = 10_000
NAMES = ("BASE_IMAGE", "CPU_BASE_IMAGE")
_LINE = re.compile(r"([A-Z_]+)=(\S+)")
_IMAGE = re.compile(r"[a-z0-9][\w.:/-]*(@sha256:[0-9a-f]{64})?")


def read_lock(root: Path) -> dict[str, str]:
    """Return the locked image of each build argument; RequestError with file:line for anything else in the file."""
    path = root / LOCK
    try:
        lines = files.read_file(path, LARGEST_BYTES).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise RequestError(f"{path}: cannot be read: {why}: write {' and '.join(NAMES)} there, NAME=image") from None
    images: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line.strip())
        if not found or found[1] not in NAMES or not _IMAGE.fullmatch(found[2]) or found[1] in images:
            raise RequestError(
                f"{path}:{number}: '{one_line(line, 100)}': write {' and '.join(NAMES)} once: NAME=image[@sha256:...]"
            )
        images[found[1]] = found[2]
    if missing := [name for name in NAMES if name not in images]:
        raise RequestError(f"{path}: {missing[0]} is missing")
    return images
