"""NVIDIA's driver against the CUDA that torch was built with, the GPUs, and the links between them.

Source of both tables: NVIDIA, CUDA Toolkit Release Notes, "CUDA Driver" (the driver for minor version compatibility,
and the one that corresponds to each toolkit), Linux x86_64.
"""

from contextlib import suppress
from itertools import combinations
from typing import Any

from runner.core.text import listed
from runner.tools.doctor.finding import Finding, ok, warning, wrong

COMPATIBLE = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""The oldest driver for a major version of CUDA; one older than the toolkit's own does not compile its PTX."""
OWN = {
    "11.0": "450.51.06",
    "11.1": "455.32",
    "11.2": "460.32.03",
    "11.3": "465.19.01",
    "11.4": "470.42.01",
    "11.5": "495.29.05",
    "11.6": "510.39.01",
    "11.7": "515.43.04",
    "11.8": "520.61.05",
    "12.0": "525.60.13",
    "12.1": "530.30.02",
    "12.2": "535.54.03",
    "12.3": "545.23.06",
    "12.4": "550.54.14",
    "12.5": "555.42.02",
    "12.6": "560.28.03",
    "12.8": "570.26",
    "12.9": "575.51.03",
    "13.0": "580.65.06",
}
"""The driver that each CUDA toolkit was released with."""
_TOOLKIT = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"
_MOST_LINKS = 18


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
    least, own = COMPATIBLE.get(_numbers(cuda)[0]), OWN.get(cuda)
    if not driver or least is None:
        return [ok("driver", where, f"a driver for CUDA {facts.get('driver_cuda')}; torch was built with CUDA {cuda}")]
    seen = f"NVIDIA driver {driver}; torch was built with CUDA {cuda}"
    if _numbers(driver) < _numbers(least):
        needs = f", which needs {own or least} ({least} by minor version compatibility)"
        mend = f"install driver {own or least} or newer, or a torch for an older CUDA"
        return [wrong("driver", where, seen + needs, mend)]
    if own and _numbers(driver) < _numbers(own):
        return [ok("driver", where, f"{seen}, which it runs by minor version compatibility ({own} compiles PTX too)")]
    return [ok("driver", where, seen)]


def check_links(links: dict[str, Any], where: str) -> list[Finding]:
    """Describe how the GPUs are linked, which limits all-reduce: NVLink, or PCIe with or without direct access."""
    names, pairs = links.get("gpus", []), links.get("pairs", [])
    if not names:
        return []
    found: list[Finding] = []
    if len(set(names)) > 1:
        seen = f"unlike GPUs: {', '.join(dict.fromkeys(names))}"
        found.append(warning("gpu-links", where, seen, "choose like ones with CUDA_VISIBLE_DEVICES: the slowest waits"))
    without = [f"{pair['a']}-{pair['b']}" for pair in pairs if not pair["direct"]]
    if without:  # as the board was built: nothing mends it
        which = listed(without)
        found.append(ok("gpu-links", where, f"GPUs {which} have no direct access: NCCL copies over host memory"))
    elif pairs:
        by = sum(1 for pair in pairs if pair["nvlinks"])
        kinds = "NVLink" if by == len(pairs) else f"NVLink for {by} of {len(pairs)} pairs" if by else "PCIe"
        found.append(ok("gpu-links", where, f"direct access between all {len(names)} GPUs: {kinds}"))
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(word) for word in version.split(".") if word.isdigit()) or (0,)


def links() -> dict[str, Any]:
    """Return `gpus` (names) and `pairs` (`{"a", "b", "direct", "nvlinks"}`); empty without NVML or a GPU."""
    try:
        import pynvml  # type: ignore[import-untyped]  # optional
    except ImportError:
        return {}
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return {}
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        names = [_text(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
        return {"gpus": names, "pairs": [_pair(pynvml, handles, a, b) for a, b in combinations(range(len(handles)), 2)]}
    except pynvml.NVMLError:
        return {}
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _pair(pynvml: Any, handles: list[Any], a: int, b: int) -> dict[str, Any]:
    """Describe two GPUs; a question that a GPU does not answer is answered by no."""
    first, second = handles[a], handles[b]
    able = {}
    for name, way in (("direct", pynvml.NVML_P2P_CAPS_INDEX_READ), ("nvlink", pynvml.NVML_P2P_CAPS_INDEX_NVLINK)):
        with suppress(pynvml.NVMLError):
            able[name] = pynvml.nvmlDeviceGetP2PStatus(first, second, way) == pynvml.NVML_P2P_STATUS_OK
    nvlinks = 0
    for link in range(_MOST_LINKS) if able.get("nvlink") else ():
        with suppress(pynvml.NVMLError):
            nvlinks += bool(pynvml.nvmlDeviceGetNvLinkState(first, link))
    return {"a": a, "b": b, "direct": able.get("direct", False), "nvlinks": nvlinks}


def _text(name: Any) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
