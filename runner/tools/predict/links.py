"""A link that one would like to have: its latency and bandwidth by name, or as given."""

import re
from typing import NamedTuple

from runner.core.errors import RequestError, did_you_mean
from runner.core.text import one_line

LINKS = {
    "100mbit": (12.5e6, 3e-4),
    "1gbit": (125e6, 1.5e-4),
    "10gbit": (1.25e9, 5e-5),
    "25gbit": (3.125e9, 3e-5),
    "100gbit": (12.5e9, 1e-5),
}
"""Bytes per second, and seconds of a message of a process group one way: of TCP on Ethernet up to 25 Gbit/s (one of two
computers on a wired router is published with 0.14 ms), of RDMA at 100 Gbit/s."""
_BYTES = {"kb": 1e3, "mb": 1e6, "gb": 1e9, "b": 1.0, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}
_BITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_UNITS = {
    "latency": (_SECONDS, "0.2ms"),
    "bandwidth": (_BYTES | {unit: size / 8 for unit, size in _BITS.items()}, "1gbit"),
    "gradients": (_BYTES, "90MB"),
}
_AMOUNT = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?(?:e-?[0-9]{1,2})?)\s*([a-z]*)")
_LEAST, _MOST = 1e-9, 1e15


class Assumed(NamedTuple):
    """What is assumed instead of measured; None where nothing is. Seconds, bytes per second, bytes."""

    latency: float | None = None
    bandwidth: float | None = None
    gradients: float | None = None

    @property
    def has_link(self) -> bool:
        """Whether a link is assumed."""
        return self.latency is not None or self.bandwidth is not None


def assumed_of(link: str | None, words: list[str]) -> Assumed:
    """Read `--link` and `--assume latency=0.2ms,bandwidth=1gbit`; RequestError says what is wrong."""
    found: dict[str, float] = {}
    if link is not None:
        if link.lower() not in LINKS:
            known = did_you_mean(link, LINKS)
            raise RequestError(f"--link {one_line(link, 60)}: unknown{known}; or --assume bandwidth=...,latency=...")
        found["bandwidth"], found["latency"] = LINKS[link.lower()]
    for word in (part for text in words for part in text.split(",")):
        name, equals, amount = word.partition("=")
        if name.strip() not in Assumed._fields or not equals:
            msg = f"--assume {one_line(word, 60)}: write one of latency=0.2ms, bandwidth=1gbit, gradients=90MB"
            raise RequestError(msg)
        found[name.strip()] = _amount(name.strip(), amount.strip())
    return Assumed(**found)


def _amount(name: str, text: str) -> float:
    """Read an amount with its unit."""
    units, example = _UNITS[name]
    match = _AMOUNT.fullmatch(text.lower().removesuffix("/s"))
    value = float(match[1]) * units[match[2]] if match and match[2] in units else 0.0
    if not _LEAST <= value <= _MOST:
        given = one_line(text, 60)
        msg = f"--assume {name}={given}: write an amount above zero with its unit, for example {name}={example}"
        raise RequestError(msg)
    return value
