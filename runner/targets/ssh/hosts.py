"""The hosts of a run: names as ssh knows them, with the number of processes that each has room for."""

import re
from dataclasses import dataclass
from pathlib import Path

from runner.core.errors import RequestError, reason_of
from runner.core.layout import Layout
from runner.core.text import one_line, shown

_NAME = re.compile(r"(?:[A-Za-z0-9_][\w.+-]{0,63}@)?[A-Za-z0-9_][\w.:-]{0,254}", re.ASCII)
"""A host or an alias of ssh's configuration, with or without a user: nothing that ssh or a shell takes for more."""
_SLOTS = re.compile(r"(?:slots=)?([1-9][0-9]{0,5})", re.ASCII)


@dataclass(frozen=True)
class Host:
    """A host; `slots` is how many processes it has room for, None if that was not said."""

    name: str
    slots: int | None = None


def of_words(text: str) -> list[Host]:
    """Read `h0,user@h1`; RequestError for a name that can be none."""
    return _checked([(f"--with hosts={one_line(text, 200)}", Host(word)) for word in text.split(",")])


def of_file(path: Path) -> list[Host]:
    """Read a file with a host on each line, `h0`, `h0 4` or `h0 slots=4`; `#` begins a comment.

    Source: the host files of Open MPI and DeepSpeed. RequestError names the line that is wrong.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise RequestError(f"--with hosts_file={one_line(path)}: {reason_of(error)}") from None
    hosts: list[tuple[str, Host]] = []
    for number, line in enumerate(lines, 1):
        here, words = f"{one_line(path)}:{number}", line.partition("#")[0].split()
        slots = _SLOTS.fullmatch(words[1]) if len(words) == 2 else None  # a name and its slots
        if len(words) > 2 or (len(words) == 2 and not slots):
            raise RequestError(f"{here}: {shown(line.strip())}: write a host and its slots, for example: h0 slots=4")
        if words:
            hosts.append((here, Host(words[0], int(slots[1]) if slots else None)))
    if not hosts:
        raise RequestError(f"--with hosts_file={one_line(path)}: it names no host")
    return _checked(hosts)


def chosen(hosts: list[Host], layout: Layout) -> list[Host]:
    """Return the host of each node; RequestError if there are not enough hosts or slots."""
    if layout.nodes > len(hosts):
        there = "1 host is" if len(hosts) == 1 else f"{len(hosts)} hosts are"
        raise RequestError(
            f"layout {layout} needs {layout.nodes} hosts, {there} given: name more, or choose a smaller layout"
        )
    for node, (host, processes) in enumerate(zip(hosts, layout.processes, strict=False)):
        if host.slots is not None and processes > host.slots:
            raise RequestError(
                f"host {host.name}: layout {layout} wants {processes} processes on it (node {node}), "
                f"it has {host.slots} slots: choose a smaller layout, or another order of the hosts"
            )
    return hosts[: layout.nodes]


def _checked(hosts: list[tuple[str, Host]]) -> list[Host]:
    known: dict[str, Host] = {}
    for place, host in hosts:
        if not _NAME.fullmatch(host.name):
            raise RequestError(
                f"{place}: {shown(host.name)} is no name of a host: letters, digits and . _ - : as ssh knows it"
            )
        if host.name in known:
            raise RequestError(f"host {host.name} is named twice: a host is one node; give it more slots instead")
        known[host.name] = host
    return list(known.values())
