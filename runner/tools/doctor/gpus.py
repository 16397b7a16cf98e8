"""NVIDIA's driver against the CUDA that torch was built with, and the GPUs.

Source of the table: NVIDIA, CUDA Toolkit Release Notes, "CUDA Driver" (for minor version compatibility), Linux x86_64.
"""

from typing import Any

from runner.tools.doctor.finding import Finding, ok, wrong

COMPATIBLE = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""The oldest driver for a major version of CUDA."""
_TOOLKIT = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"


def check_gpus(facts: dict[str, Any], where: str, *, device: str, image: str = "") -> list[Finding]:
    """Check driver and GPUs of `inside.gather`; a machine without any is no finding unless a run shall use them.

    `device` is `cpu`, `cuda`, or `auto` for what is there; `image` is the container's, if it is one.
    """
    driver, count = facts.get("driver"), facts.get("gpus") or 0
    if device == "cpu" or (device == "auto" and not driver and not count):
        return []
    if not driver and not facts.get("driver_cuda"):
        mend = f"install the NVIDIA Container Toolkit: {_TOOLKIT}" if image else "install NVIDIA's driver"
        return [wrong("driver", where, "no NVIDIA driver is seen", f"{mend}, or use --device cpu")]
    found = _check_driver(facts, where)
    if facts.get("driver_error"):
        seen = f"CUDA does not start: cuInit returned {facts['driver_error']}"
        found.append(wrong("gpus", where, seen, "nvidia-smi says more; after an update of the driver, restart"))
    elif not count:
        found.append(wrong("gpus", where, "the driver shows no GPU", "nvidia-smi -L; look at CUDA_VISIBLE_DEVICES"))
    else:
        found.append(ok("gpus", where, f"{count} GPU{'s' * (count > 1)}"))
    return found


def _check_driver(facts: dict[str, Any], where: str) -> list[Finding]:
    cuda, driver = str(facts.get("cuda") or ""), str(facts.get("driver") or "")
    if not facts.get("torch"):
        return [ok("driver", where, f"NVIDIA driver {driver}")]
    if not cuda:
        mend = "install a build of torch for CUDA: https://pytorch.org/get-started/locally/"
        return [wrong("driver", where, f"torch {facts['torch']} was built without CUDA", mend)]
    least = COMPATIBLE.get(_numbers(cuda)[0])
    if not driver or least is None:
        return [ok("driver", where, f"a driver for CUDA {facts.get('driver_cuda')}; torch was built with CUDA {cuda}")]
    seen = f"NVIDIA driver {driver}; torch was built with CUDA {cuda}"
    if _numbers(driver) < _numbers(least):
        mend = f"install driver {least} or newer, or a torch for an older CUDA"
        return [wrong("driver", where, f"{seen}, which needs {least}", mend)]
    return [ok("driver", where, seen)]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(word) for word in version.split(".") if word.isdigit()) or (0,)
