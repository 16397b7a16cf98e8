"""What is installed is what the lock files say, with hashes, with a GPU and without one."""

import re
import runpy
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


def pinned(text: str) -> dict[str, list[str]]:
    """The packages of a lock file with the lines of each, hashes and all."""
    blocks = re.split(r"(?m)^(?=[a-z0-9])", "\n".join(line for line in text.splitlines() if not line.startswith("#")))
    return {re.split("==", block)[0]: block.splitlines() for block in blocks if "==" in block}


RUNTIME = pinned((ROOT / "requirements/runtime.lock").read_text("utf-8"))
DEVELOP = pinned((ROOT / "requirements/dev.lock").read_text("utf-8"))


def test_every_pin_has_a_hash_and_no_lock_file_names_a_host() -> None:
    assert len(RUNTIME) > 40
    for lines in (*RUNTIME.values(), *DEVELOP.values()):
        assert any("--hash=sha256:" in line for line in lines), lines[0]
    assert not [name for name in ("runtime", "dev") if "://" in (ROOT / f"requirements/{name}.lock").read_text("utf-8")]


def test_the_checks_run_on_the_very_packages_that_people_install() -> None:
    assert {name: DEVELOP.get(name, [""])[0] for name in RUNTIME} == {name: lines[0] for name, lines in RUNTIME.items()}


def test_what_is_installed_here_is_what_is_pinned() -> None:
    installed = {canonicalize_name(found.name): found.version for found in distributions()}
    lines = re.findall(r"(?m)^([a-z0-9].*?) \\$", (ROOT / "requirements/runtime.lock").read_text("utf-8"))
    without_cuda = installed["torch"].endswith("+cpu")
    for pin in map(Requirement, lines):
        if without_cuda and pin.name.startswith(("torch", "triton", "nvidia-")):
            continue
        if pin.marker is None or pin.marker.evaluate():
            assert pin.specifier.contains(installed[canonicalize_name(pin.name)]), pin


def test_without_a_gpu_only_what_cuda_needs_is_left_out() -> None:
    setup = runpy.run_path(str(ROOT / "requirements" / "setup.py"))
    text = (ROOT / "requirements/runtime.lock").read_text("utf-8")
    left_out = set(RUNTIME) - set(pinned(setup["without_cuda"](text)))
    assert {"torch", "torchvision", "triton", "nvidia-nccl-cu12"} <= left_out
    assert all(
        name.startswith("nvidia-") and name != "nvidia-ml-py" for name in left_out - {"torch", "torchvision", "triton"}
    )
    assert [pin for pin, _ in setup["TORCH"].findall(text)] == ["torch==2.3.1", "torchvision==0.18.1"]
