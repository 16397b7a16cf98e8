"""`containers/image.lock`: the images that ours are built on, each with its digest if a person has pinned it."""

from pathlib import Path

from runner.core.errors import RequestError
from runner.core.text import one_line

LOCK = "containers/image.lock"
NAMES = ("BASE_IMAGE", "CPU_BASE_IMAGE")


def read_lock(root: Path) -> dict[str, str]:
    """Return the locked image of each build argument; RequestError if one is missing."""
    path = root / LOCK
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(one_line(f"{path}: cannot be read: {error}")) from None
    images = dict(line.strip().split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    if missing := [name for name in NAMES if not images.get(name)]:
        raise RequestError(f"{path}: {missing[0]} is missing: write NAME=image for {' and '.join(NAMES)}")
    return images
