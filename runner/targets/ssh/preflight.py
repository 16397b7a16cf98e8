"""What is looked at on every host before anything is started anywhere; a finding is one line with the host's name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from runner.core import clock
from runner.core.errors import RequestError
from runner.core.text import listed
from runner.targets.ssh.all_hosts import attempt
from runner.targets.ssh.hosts import Host
from runner.targets.ssh.images import ask_engine, examine, judge_images
from runner.targets.ssh.openssh import OpenSsh
from runner.targets.ssh.session import HostError, Session, connect
from runner.targets.ssh.verdicts import (
    OK,
    WRONG,
    Facts,
    Need,
    Verdict,
    facts_of,
    judge,
    judge_address,
    judge_versions,
    number,
    skew_of,
    text,
)


class Examination:
    """All hosts of a run, looked at at once: what each said, by its number, and the verdicts on all.

    Args:
        ssh: how they are reached.
        hosts: the host of each node.
        need: what the run needs.
        make: whether the kit's folder is made on them.
    """

    def __init__(self, ssh: OpenSsh, hosts: Sequence[Host], need: Need, *, make: bool) -> None:
        self.facts: dict[int, Facts] = {}
        self.verdicts: list[Verdict] = []
        self._ssh, self._hosts, self._need, self._makes = ssh, hosts, need, make
        self._sessions: dict[int, Session] = {}

    @property
    def wrong(self) -> list[Verdict]:
        """What keeps a run from starting."""
        return [one for one in self.verdicts if one.state == WRONG]

    def run(self, *, go_on: bool) -> None:
        """Look at one thing after the other; go on behind what is wrong, or do not."""
        try:
            for step in (self._connect, self._ask, self._ask_engines, self._compare, self._listen, self._look_into):
                step()
                if self.wrong and not go_on:
                    return
        finally:
            for session in self._sessions.values():
                session.close()

    def _connect(self) -> None:
        def one(node: int) -> None:
            self._sessions[node] = connect(self._ssh, self._hosts[node].name, self._need.python)

        for node, failed in self._each(one, range(len(self._hosts)), "ssh"):
            if not failed:
                self.verdicts.append(Verdict(self._hosts[node].name, "ssh", OK, "ssh reaches it"))

    def _ask(self) -> None:
        """Ask the hosts for their facts, and judge those that concern one host alone."""
        need, judged = self._need, {}

        def one(node: int) -> None:
            session, asked = self._sessions[node], clock.now()
            said: dict[str, Any] = session.ask("check", folder=need.folder, data=need.data, make=self._makes)
            skew = skew_of(number(said, "time"), asked, clock.now())
            facts = facts_of(session.host, said, need.network)
            self.facts[node] = replace(facts, torch="") if need.container else facts  # that of the image is used
            judged[node] = list(judge(self.facts[node], said, skew, need, need.gpus[node] if need.gpus else 0))

        for node, failed in self._each(one, self._sessions, "folder"):
            self.verdicts += [] if failed else judged[node]
        self.facts = dict(sorted(self.facts.items()))

    def _ask_engines(self) -> None:
        """Ask the hosts for their container engines."""
        wanted, judged = self._need.container, {}
        if wanted is None:
            return

        def one(node: int) -> None:
            engine, judged[node] = ask_engine(self._sessions[node], wanted)
            self.facts[node] = replace(self.facts[node], engine=engine)

        for node, failed in self._each(one, list(self.facts), "container"):
            self.verdicts += [] if failed else judged[node]

    def _look_into(self) -> None:
        """Look into the image that hosts have already, unless that is done when all have it, before the start."""
        wanted, judged = self._need.container, {}
        have = [node for node, facts in self.facts.items() if facts.engine and facts.engine.image]
        if wanted is None or self._makes:
            return

        def one(node: int) -> None:
            gpus = bool(self._need.gpus)
            self.facts[node], judged[node] = examine(self._sessions[node], self.facts[node], wanted, gpus=gpus)

        for node, failed in self._each(one, have, "image"):
            self.verdicts += [] if failed else judged[node]
        self.verdicts += judge_images(list(self.facts.values()), wanted)
        self._compare()

    def _compare(self) -> None:
        self.verdicts += judge_versions(list(self.facts.values()), self._need.torch)

    def _listen(self) -> None:
        """Let every host listen, the first one at the rendezvous's port, and connect to every other one."""
        need, ports = self._need, {}
        alone = len(self._hosts) == 1
        able = [node for node in self.facts if alone and need.port]
        if not alone:
            placed = {node: judge_address(one) for node, one in self.facts.items() if one.address or not need.network}
            self.verdicts += placed.values()
            able = [node for node, one in placed.items() if one.state == OK]

        def one(node: int) -> None:
            address = "127.0.0.1" if alone else self.facts[node].address
            ports[node] = _listen(self._sessions[node], address, 0 if node else need.port)

        list(self._each(one, able, "port"))
        if not alone:
            self._reach(dict(sorted(ports.items())))

    def _reach(self, ports: dict[int, int]) -> None:
        found: dict[int, list[Verdict]] = {}

        def one(own: int) -> None:
            found[own] = []
            for other in (node for node in ports if node != own):
                host, address = self.facts[other].host, self.facts[other].address
                said = self._sessions[own].ask("reach", address=address, port=ports[other])
                if trouble := text(said, "trouble"):
                    seen = f"it does not reach {host} at {address}, port {ports[other]}: {trouble}"
                    mend = "let the hosts reach each other on all ports, or choose another network with --with network="
                    found[own].append(Verdict(self.facts[own].host, "reach", WRONG, seen, mend))

        for node, failed in self._each(one, ports, "reach"):
            reached = Verdict(self.facts[node].host, "reach", OK, f"it reaches the other {len(ports) - 1}")
            self.verdicts += [] if failed else found[node] or [reached]

    def _each(self, do: Callable[[int], None], nodes: Iterable[int], check: str) -> Iterator[tuple[int, bool]]:
        """Do something with hosts, all at once; a verdict for each of which it fails, and whether it has."""
        nodes = list(nodes)
        for node, error in zip(nodes, attempt(do, nodes), strict=True):
            if isinstance(error, HostError):
                host = self._hosts[node].name
                seen = error.seen.removeprefix(f"host {host}: ")
                self.verdicts.append(Verdict(host, check, WRONG, seen, error.mend))
            yield node, isinstance(error, HostError)


def check(ssh: OpenSsh, hosts: Sequence[Host], need: Need) -> list[Facts]:
    """Look at all hosts at once; RequestError names each one that is not fit, and what mends it."""
    found = Examination(ssh, hosts, need, make=True)
    found.run(go_on=False)
    first: dict[str, Verdict] = {}
    for one in found.wrong:
        first.setdefault(one.host, one)
    if first:
        raise RequestError(listed((one.line for one in first.values()), "; "))
    return list(found.facts.values())


def _listen(session: Session, address: str, port: int) -> int:
    try:
        return int(number(session.ask("listen", address=address, port=port), "port"))
    except HostError as error:
        if not port:
            raise
        seen = f"{error}: port {port} of {address} cannot be used for the rendezvous"
        raise HostError(seen, mend="choose another --with port=, or 0") from None
