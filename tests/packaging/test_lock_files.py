"""The lock files: hashes, consistency with each other and with this environment."""

import re
import runpy
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


def pinned(text: str) -> dict[str, list[str]]:
    """Return each package of a lock file with its lines, including hashes."""
    blocks = re.split(r"(?m)^(?=[a-z0-9])", "\n".join(line for line in text.splitlines() if not line.startswith("#")))
    return {re.split("==", block)[0]: block.splitlines() for block in blocks if "==" in block}


RUNTIME_LOCK, DEVELOP_LOCK = ((ROOT / f"requirements/{name}.lock").read_text("utf-8") for name in ("runtime", "dev"))
RUNTIME, DEVELOP = pinned(RUNTIME_LOCK), pinned(DEVELOP_LOCK)


def test_every_pin_has_a_hash_and_no_lock_file_names_a_host() -> None:
    assert len(RUNTIME) > 40
    for lines in (*RUNTIME.values(), *DEVELOP.values()):
        assert any("--hash=sha256:" in line for line in lines), lines[0]
    assert "://" not in RUNTIME_LOCK + DEVELOP_LOCK


def test_development_uses_the_same_packages_as_the_runtime() -> None:
    assert {name: DEVELOP.get(name, [""])[0] for name in RUNTIME} == {name: lines[0] for name, lines in RUNTIME.items()}


def test_the_installed_packages_are_the_pinned_ones() -> None:
    installed = {canonicalize_name(found.name): found.version for found in distributions()}
    lines = re.findall(r"(?m)^([a-z0-9].*?) \\$", RUNTIME_LOCK)
    without_cuda = installed["torch"].endswith("+cpu")
    for pin in map(Requirement, lines):
        if without_cuda and pin.name.startswith(("torch", "triton", "nvidia-")):
            continue
        if pin.marker is None or pin.marker.evaluate():
            assert pin.specifier.contains(installed[canonicalize_name(pin.name)]), pin


def test_without_a_gpu_only_packages_of_cuda_are_left_out() -> None:
    setup = runpy.run_path(str(ROOT / "requirements" / "setup.py"))
    left_out = set(RUNTIME) - set(pinned(setup["without_cuda"](RUNTIME_LOCK)))
    torch = {"torch", "torchvision", "triton"}
    assert torch | {"nvidia-nccl-cu12"} <= left_out
    assert all(name.startswith("nvidia-") for name in left_out - torch)
    assert "nvidia-ml-py" not in left_out
    assert [pin for pin, _ in setup["TORCH"].findall(RUNTIME_LOCK)] == ["torch==2.3.1", "torchvision==0.18.1"]
