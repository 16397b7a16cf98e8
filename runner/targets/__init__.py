"""The targets by name, each a class that satisfies `base.Target`, imported on use."""

import importlib
from dataclasses import fields
from typing import Any, cast

from runner.core.errors import RequestError, did_you_mean
from runner.targets.base import Target
from runner.targets.options import read_options

TARGETS = {
    "compose": "runner.targets.compose.target:Compose",
    "kubernetes": "runner.targets.kubernetes.target:Kubernetes",
    "local": "runner.targets.local:Local",
    "replay": "runner.targets.replay:Replay",
    "slurm": "runner.targets.slurm.target:Slurm",
    "ssh": "runner.targets.ssh.target:Ssh",
}


def find(name: str) -> type[Target[Any]]:
    """Import the class of a target; RequestError for a name that is none."""
    if name not in TARGETS:
        raise RequestError(f"no target '{name}'{did_you_mean(name, TARGETS)}")
    module, _, attribute = TARGETS[name].partition(":")
    return cast("type[Target[Any]]", getattr(importlib.import_module(module), attribute))


def load(name: str, words: list[str] | None = None) -> Target[Any]:
    """Make a target with its options, given as `name=value` words."""
    target = find(name)
    return target(read_options(target, words or [], _names(words or [])))


def _names(words: list[str]) -> dict[str, list[str]]:
    """List the options of every target, only if there is a word to compare with them."""
    return {name: [option.name for option in fields(find(name).Options)] for name in TARGETS} if words else {}
