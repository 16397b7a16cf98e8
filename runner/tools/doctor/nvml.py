"""NVML, NVIDIA's management library: which GPUs there are, and how each two of them are linked."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from runner.tools.doctor.gpus import pairs_of

_MOST_LINKS = 18


def links() -> dict[str, Any]:
    """Return `gpus` (their names) and `pairs`; empty where NVML or a GPU is not there."""
    try:
        import pynvml  # type: ignore[import-untyped] # noqa: PLC0415 - optional
    except ImportError:
        return {}
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return {}
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        names = [_text(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
        return {"gpus": names, "pairs": [_pair(pynvml, handles, a, b) for a, b in pairs_of(len(handles))]}
    except pynvml.NVMLError:
        return {}
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _pair(pynvml: Any, handles: list[Any], a: int, b: int) -> dict[str, Any]:
    """Describe two GPUs; a question that a GPU does not answer is answered by no."""
    first, second = handles[a], handles[b]
    direct = False
    with suppress(pynvml.NVMLError):
        read = pynvml.NVML_P2P_CAPS_INDEX_READ
        direct = pynvml.nvmlDeviceGetP2PStatus(first, second, read) == pynvml.NVML_P2P_STATUS_OK
    nvlink = False
    with suppress(pynvml.NVMLError):
        over = pynvml.NVML_P2P_CAPS_INDEX_NVLINK
        nvlink = pynvml.nvmlDeviceGetP2PStatus(first, second, over) == pynvml.NVML_P2P_STATUS_OK
    return {"a": a, "b": b, "direct": direct, "nvlinks": _active(pynvml, first) if nvlink else 0}


def _active(pynvml: Any, handle: Any) -> int:
    count = 0
    for link in range(_MOST_LINKS):
        with suppress(pynvml.NVMLError):
            count += bool(pynvml.nvmlDeviceGetNvLinkState(handle, link))
    return count


def _text(name: Any) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
