"""The targets by name; each is a module that satisfies `base.Target`, imported on use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

from runner.errors import RequestError, did_you_mean

if TYPE_CHECKING:
    from runner.targets.base import Target

TARGETS = {
    "compose": "runner.targets.compose",
    "kubernetes": "runner.targets.kubernetes",
    "local": "runner.targets.local",
    "replay": "runner.targets.replay",
}


def load(name: str) -> Target:
    """Import a target; RequestError for a name that is none."""
    if name not in TARGETS:
        msg = f"no target '{name}'{did_you_mean(name, TARGETS)}"
        raise RequestError(msg)
    return cast("Target", importlib.import_module(TARGETS[name]))
