"""Environment variables of a run's processes, kept among its args under the key `env.NAME`."""

import os
import re
import shlex
from collections.abc import Iterable
from typing import Any

from runner.core.errors import RequestError
from runner.core.secrets import MASK, is_secret, mask_text
from runner.core.text import one_line

PREFIX = "env."
_NAME = re.compile(r"[A-Z_][A-Z0-9_]*", re.ASCII)
_LAUNCHERS = re.compile(
    r"(PET|TORCHELASTIC|KIT|SLURM|SLURMD|PMI|PMIX|OMPI)_.*|((LOCAL|GROUP|ROLE|NODE)_)?RANK|((LOCAL|GROUP|ROLE)_)?WORLD_SIZE"
    r"|MASTER_(ADDR|PORT)|PATH|PYTHONPATH|PYTHONUNBUFFERED|PYTHONFAULTHANDLER|CUDA_VISIBLE_DEVICES"
)


def is_variable(key: str) -> bool:
    """Return whether a key of args or an axis names an environment variable, as `env.NCCL_ALGO` does."""
    return key.startswith(PREFIX) and _NAME.fullmatch(key.removeprefix(PREFIX)) is not None


def wrong_variable(name: str, value: object) -> str | None:
    """Return why a variable cannot be set to a value, or None if it can."""
    if not _NAME.fullmatch(name):
        return f"environment variable '{name}': a name has capital letters, digits and underscores"
    if _LAUNCHERS.fullmatch(name):
        return f"environment variable {name} is set by the launcher"
    if not isinstance(value, str):
        return f"environment variable {name}: write the value as text, in quotes"
    if value == MASK and not is_secret(name, "any secret"):
        return f"environment variable {name}: its value was masked"
    if not value.isprintable() and not is_secret(name, value):
        return f"environment variable {name}: the value has characters that cannot be printed"
    return None


def variables_of(args: dict[str, Any]) -> dict[str, str]:
    """Return the environment variables among the args of a run by name; the value of a secret is `MASK`."""
    found = {key.removeprefix(PREFIX): value for key, value in args.items() if is_variable(key)}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def assignments(args: dict[str, Any]) -> list[str]:
    """Return the environment variables among the args of a run as a shell's assignments: `NCCL_ALGO=Ring`."""
    variables = variables_of(args).items()
    return [f"{name}={'$' + name if value == MASK else shlex.quote(value)}" for name, value in variables]


def values_of(variables: dict[str, str]) -> dict[str, str]:
    """Return the variables with each `MASK` replaced by the value in the runner's environment.

    Raises RequestError if that environment lacks a variable.
    """
    if lacking := [name for name, value in variables.items() if value == MASK and name not in os.environ]:
        raise RequestError(f"--env {lacking[0]}: this shell has no variable {lacking[0]}: export it first")
    return {name: os.environ[name] if value == MASK else value for name, value in variables.items()}


def read_words(words: Iterable[str]) -> dict[str, str]:
    """Read `--env NAME=VALUE` and `--env NAME` (the value in this shell) as args; the value of a secret becomes `MASK`.

    Raises RequestError if a variable cannot be set or this shell lacks it.
    """
    read = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals and _NAME.fullmatch(name):
            value = values_of({name: MASK})[name]
        if wrong := wrong_variable(name, value):
            raise RequestError(one_line(f"--env {word}: {wrong}"))
        read[f"{PREFIX}{name}"] = MASK if is_secret(name, value) or mask_text(value) != value else value
    return read
