"""Bytes of logs that are not plain UTF-8 lines: other encodings, and the JSON files of Docker's logs."""

from __future__ import annotations

import codecs
import json
import re

UTF16 = ("utf-16-le", "utf-16-be")
_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_LOOKED_AT = 8_192
_FEWEST = 8
_MANY, _FEW = 0.3, 0.02
_DOCKER = b'{"log":"'
# Words of two letters or more: one letter alone may come about where bytes of another encoding are read as Chinese.
_CHINESE = re.compile("训练|耗时|准确率|正确率|精度|加速比|损失|进程|总共|完成|开始|结束|测试|验证|时间|错误|失败|速度")


def utf16_of(data: bytes) -> str:
    """Return the encoding of a beginning in which every second byte is NUL, as of UTF-16 without its mark."""
    head = data[: min(len(data), _LOOKED_AT) // 2 * 2]
    if len(head) < _FEWEST or head.startswith(_MARKS):
        return ""
    shares = [head[place::2].count(0) / (len(head) // 2) for place in (1, 0)]
    found = [
        name for name, mine, other in zip(UTF16, shares, shares[::-1], strict=True) if mine > _MANY and other < _FEW
    ]
    return found[0] if found else ""


def is_gb18030(data: bytes) -> bool:
    """Whether whole lines are mostly not UTF-8, and have Chinese words in the encoding of Chinese Windows."""
    if _is_utf8(data):
        return False
    lines = [line for line in data.splitlines() if not line.isascii()]
    broken = [line for line in lines if "\ufffd" in line.decode("utf-8", "replace")]
    return 2 * len(broken) > len(lines) and bool(_CHINESE.search(b"\n".join(broken).decode("gb18030", "replace")))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def from_gb18030(data: bytes) -> bytes:
    """Return lines as UTF-8."""
    return data.decode("gb18030", "replace").encode("utf-8", "replace")


def is_docker(data: bytes) -> bool:
    """Whether lines are those of a file that Docker keeps the output of a container in."""
    return data.startswith(_DOCKER)


def from_docker(data: bytes) -> bytes:
    """Return what the container printed, each line with its time, a line for each; other lines stay as they are."""
    return b"\n".join(map(_printed, data.split(b"\n")))


def _printed(line: bytes) -> bytes:
    if not line.startswith(_DOCKER):
        return line
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if not isinstance(entry, dict) or not all(isinstance(entry.get(key), str) for key in ("log", "stream", "time")):
        return line
    text = f"{entry['time']} {entry['log'].rstrip()}".replace("\n", " ").replace("\0", "")
    return text.encode("utf-8", "replace")
