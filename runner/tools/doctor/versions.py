"""Versions: Python, torch, torchrun; and those that differ between two places of one run."""

from __future__ import annotations

from typing import Any

from runner.tools.doctor.finding import Finding, ok, warning, wrong

TORCH = "pip install 'distributed-experiment-kit[torch]'"


def check_versions(facts: dict[str, Any], where: str, *, image: str = "") -> list[Finding]:
    """Look for Python, torch and torchrun where programs run; `image` is the container's, if it is one."""
    mend = f"use an image with torch: --with image=..., or build {image} again" if image else TORCH
    torch, python = facts.get("torch"), f"Python {facts.get('python')}"
    if not torch:
        return [ok("python", where, python), wrong("torch", where, "torch is not installed", mend)]
    parts = [f"torch {torch}"] + [f"{name.upper()} {facts[name]}" for name in ("cuda", "nccl") if facts.get(name)]
    found = [ok("python", where, python), ok("torch", where, ", ".join(parts))]
    if image and not facts.get("torchrun"):
        found.append(wrong("torchrun", where, "there is no torchrun on the PATH", mend))
    return found


def check_difference(here: dict[str, Any], there: dict[str, Any], where: str, *, together: bool) -> list[Finding]:
    """Compare two places.

    Args:
        here: the facts of this machine.
        there: the facts of the other place.
        where: what the other place is.
        together: whether both take part in one run, so that a difference breaks it.
    """
    differ = wrong if together else warning
    found: list[Finding] = []
    for name in ("torch", "nccl", "python"):
        mine, other = here.get(name), there.get(name)
        if mine and other and _version(name, str(mine)) != _version(name, str(other)):
            worst = differ if name == "torch" else warning
            mend = f"install the same {name} on both" + ("" if together else ", or compare only runs of one image")
            found.append(worst("versions", where, f"{name} {other} there, {name} {mine} on this machine", mend))
    if not found and together:
        found.append(ok("versions", where, f"the same torch {here.get('torch')} as on this machine"))
    return found


def _version(name: str, text: str) -> str:
    """Return what has to be equal: of Python the minor version, of torch all but its build (`+cu121`, `+cpu`)."""
    return ".".join(text.split(".")[:2]) if name == "python" else text.partition("+")[0]
