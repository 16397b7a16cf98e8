"""What is looked at on every host before anything is started anywhere; a finding is one line with the host's name."""

from collections.abc import Callable, Iterable, Sequence

from runner.core import clock
from runner.core.errors import RequestError
from runner.core.text import listed
from runner.targets.ssh.hosts import Host
from runner.targets.ssh.openssh import OpenSsh
from runner.targets.ssh.session import HostError, Session, attempt, connect
from runner.targets.ssh.verdicts import (
    OK,
    WRONG,
    Answer,
    Facts,
    Need,
    Verdict,
    facts_of,
    judge,
    judge_address,
    judge_versions,
    skew_of,
)


class Examination:
    """All hosts of a run, looked at at once: what each said, by its number, and the verdicts on all.

    Before a start the kit's folder is made on them, and the first step that finds something wrong is the last one.
    """

    def __init__(self, ssh: OpenSsh, hosts: Sequence[Host], need: Need, *, before_start: bool) -> None:
        self.facts: dict[int, Facts] = {}
        self.verdicts: list[Verdict] = []
        self._ssh, self._hosts, self._need, self._before_start = ssh, hosts, need, before_start
        self._sessions: dict[int, Session] = {}

    @property
    def wrong(self) -> list[Verdict]:
        """What keeps a run from starting."""
        return [verdict for verdict in self.verdicts if verdict.state == WRONG]

    def run(self) -> None:
        """Look at one thing after the other."""
        try:
            for step in (self._connect, self._ask, self._compare, self._listen):
                step()
                if self.wrong and self._before_start:
                    return
        finally:
            for session in self._sessions.values():
                session.close()

    def _connect(self) -> None:
        def connected(node: int) -> list[Verdict]:
            name = self._hosts[node].name
            self._sessions[node] = connect(self._ssh, name, self._need.python)
            return [Verdict(name, "ssh", OK, "ssh reaches it")]

        self._each(connected, range(len(self._hosts)), "ssh")

    def _ask(self) -> None:
        """Ask the hosts for their facts, and judge those that concern one host alone."""
        need = self._need

        def asked(node: int) -> Iterable[Verdict]:
            session, began = self._sessions[node], clock.now()
            said = session.told(Answer, "check", folder=need.folder, data=need.data, make=self._before_start)
            skew = skew_of(said.time, began, clock.now())
            self.facts[node] = facts_of(session.host, said, need.network)
            return list(judge(self.facts[node], said, skew, need, need.gpus[node] if need.gpus else 0))

        self._each(asked, self._sessions, "folder")
        self.facts = dict(sorted(self.facts.items()))

    def _compare(self) -> None:
        self.verdicts += judge_versions(list(self.facts.values()), self._need.torch)

    def _listen(self) -> None:
        """Let every host listen, the first one at the rendezvous's port, and connect to every other one."""
        need, ports = self._need, {}
        alone = len(self._hosts) == 1
        able = [node for node in self.facts if alone and need.port]
        if not alone:
            placed = {
                node: judge_address(facts) for node, facts in self.facts.items() if facts.address or not need.network
            }
            self.verdicts += placed.values()
            able = [node for node, verdict in placed.items() if verdict.state == OK]

        def listens(node: int) -> list[Verdict]:
            address = "127.0.0.1" if alone else self.facts[node].address
            port = 0 if node else need.port
            try:
                said = self._sessions[node].ask("listen", address=address, port=port)
            except HostError as error:
                if not port:
                    raise
                seen = f"{error}: port {port} of {address} cannot be used for the rendezvous"
                raise HostError(seen, mend="choose another --with port=, or 0") from None
            ports[node] = said["port"]
            return []

        self._each(listens, able, "port")
        if not alone:
            self._reach(dict(sorted(ports.items())))

    def _reach(self, ports: dict[int, int]) -> None:
        def reached(own: int) -> list[Verdict]:
            here, found = self.facts[own].host, []
            for other in (node for node in ports if node != own):
                host, address = self.facts[other].host, self.facts[other].address
                said = self._sessions[own].ask("reach", address=address, port=ports[other])
                if trouble := said["trouble"]:
                    seen = f"it does not reach {host} at {address}, port {ports[other]}: {trouble}"
                    mend = "let the hosts reach each other on all ports, or choose another network with --with network="
                    found.append(Verdict(here, "reach", WRONG, seen, mend))
            return found or [Verdict(here, "reach", OK, f"it reaches the other {len(ports) - 1}")]

        self._each(reached, ports, "reach")

    def _each(self, do: Callable[[int], Iterable[Verdict]], nodes: Iterable[int], check: str) -> None:
        """Do something with hosts, all at once, and keep its verdicts; where it fails, that is one."""
        nodes = list(nodes)
        for node, found in zip(nodes, attempt(do, nodes), strict=True):
            if isinstance(found, HostError):
                host = self._hosts[node].name
                seen = found.seen.removeprefix(f"host {host}: ")
                self.verdicts.append(Verdict(host, check, WRONG, seen, found.mend))
            else:
                self.verdicts += found


def check(ssh: OpenSsh, hosts: Sequence[Host], need: Need) -> list[Facts]:
    """Look at all hosts at once; RequestError names each one that is not fit, and what mends it."""
    found = Examination(ssh, hosts, need, before_start=True)
    found.run()
    first: dict[str, Verdict] = {}
    for verdict in found.wrong:
        first.setdefault(verdict.host, verdict)
    if first:
        raise RequestError(listed((verdict.line for verdict in first.values()), "; "))
    return list(found.facts.values())
