"""Checks of the network between the hosts of a run: names, routes, ports, interfaces."""

from typing import Any

from runner.core.network import GLOO, NCCL, is_loopback, variables_for
from runner.core.text import listed
from runner.tools.doctor import peers as facts_of
from runner.tools.doctor.finding import Finding, ok, warning, wrong
from runner.tools.doctor.peers import Peer


def check_peers(peers: list[Peer], here: dict[str, Any], where: str) -> list[Finding]:
    """Check every peer, and what holds for all of them; `here` are the facts of this machine, `where` its name."""
    found = [finding for peer in peers for finding in _check_peer(peer)]
    others = [peer for peer in peers if peer.route and not peer.is_here]
    used = sorted({peer.route.interface for peer in others if peer.route})
    if len(used) > 1:
        seen = f"the peers are reached by several interfaces: {', '.join(used)}"
        mend = "name the peers by their addresses of one network: Gloo and NCCL use one interface for all"
        found.append(warning("interface", where, seen, mend))
    return [*found, *_check_own_name(here, where, used), *check_variables(here, where, used)]


def _check_peer(peer: Peer) -> list[Finding]:
    if peer.unresolved:
        mend = f"add a line with its address to /etc/hosts, or use the address; `getent hosts {peer.name}` repeats it"
        return [wrong("name", peer.name, f"the name does not resolve: {peer.unresolved}", mend)]
    address = peer.addresses[0]
    if peer.is_here:
        if peer.name == "localhost" or is_loopback(peer.name):
            return [ok("route", peer.name, "this machine itself")]
        seen = f"the name resolves to {address}, which is every machine's own: each node would wait for itself"
        return [wrong("name", peer.name, seen, f"give {peer.name} its address of the network in /etc/hosts")]
    if peer.route is None or peer.state == facts_of.NO_ROUTE:
        mend = f"`ip route get {address}` shows the way; connect this machine to that network, or use another address"
        return [wrong("route", peer.name, f"there is no way to {address}", mend)]
    settings = " ".join(f"{name}={value}" for name, value in variables_for(peer.route.interface).items())
    seen = f"{address} is reached by {peer.route.interface} from {peer.route.local}: {settings}"
    return [ok("route", peer.name, seen), _check_port(peer)]


def _check_port(peer: Peer) -> Finding:
    address, port = peer.addresses[0], peer.port
    firewall = f"allow all TCP between the nodes, for example on {peer.name}: nft or ufw allow from this machine"
    if peer.state == facts_of.ABSENT:
        mend = f"is {peer.name} up? `ip neigh` shows who answers; is {address} still its address?"
        return wrong("port", peer.name, f"no host answers at {address}: {peer.why}", mend)
    if peer.state == facts_of.FILTERED:
        what = f"port {port} is filtered: {peer.why}"
        if peer.other_ports in (facts_of.OPEN, facts_of.CLOSED):
            seen = f"{what}, while other ports answer: a firewall drops it"
        else:
            seen = f"{what}, nor at other ports: a firewall drops everything, or the host is down"
        return wrong("port", peer.name, seen, firewall)
    if peer.other_ports == facts_of.FILTERED:
        seen = f"port {port} answers, other ports are filtered: Gloo and NCCL connect at ports chosen at random"
        return wrong("port", peer.name, seen, firewall)
    if peer.state == facts_of.CLOSED:
        return ok("port", peer.name, f"the host answers; nothing listens at port {port} yet, as before a run")
    return ok("port", peer.name, f"port {port} is open")


def _check_own_name(here: dict[str, Any], where: str, used: list[str]) -> list[Finding]:
    """Look where the own host name leads: Gloo, and a rendezvous on it, announce that address to the others."""
    addresses, name = here.get("own_addresses") or [], here.get("host")
    if not used or (here.get("variables") or {}).get(GLOO):
        return []
    if not addresses:
        mend = f"add the line '<address> {name}' to /etc/hosts, or export {GLOO}={used[0]}"
        return [wrong("own-name", where, f"the own host name {name} does not resolve", mend)]
    if all(is_loopback(address) for address in addresses):
        seen = f"the own host name {name} resolves to {addresses[0]}: others would be told to connect to themselves"
        mend = f"give {name} its address of {used[0]} in /etc/hosts, or export {GLOO}={used[0]}, as runner node does"
        return [wrong("own-name", where, seen, mend)]
    return [ok("own-name", where, f"the own host name {name} resolves to {listed(addresses, most=3)}")]


def check_variables(here: dict[str, Any], where: str, used: list[str]) -> list[Finding]:
    """Look whether the interfaces that the environment chooses are there, and are those `used` to reach the peers."""
    found = []
    names = [*(here.get("interfaces") or []), "lo"]
    for variable in (GLOO, NCCL):
        value = (here.get("variables") or {}).get(variable)
        if not value:
            continue
        chosen, right = chosen_by(variable, value, names), variables_for(used[0])[variable] if used else ""
        mend = f"export {variable}={right}" if right else f"unset {variable}; there are: {listed(names)}"
        if not chosen:
            found.append(wrong("interface", where, f"{variable}={value} chooses no interface of this machine", mend))
        elif used and not set(chosen) & set(used):
            seen = f"{variable}={value} chooses {', '.join(chosen)}, and the peers are reached by {', '.join(used)}"
            found.append(wrong("interface", where, seen, mend))
        else:
            found.append(ok("interface", where, f"{variable}={value} chooses {listed(chosen)}"))
    return found


def chosen_by(variable: str, value: str, names: list[str]) -> list[str]:
    """Return the interfaces that a value of `GLOO_SOCKET_IFNAME` or `NCCL_SOCKET_IFNAME` chooses, of those given."""
    if variable == GLOO:
        return [name for name in value.split(",") if name in names]
    others, value = value.startswith("^"), value.removeprefix("^")
    exact, value = value.startswith("="), value.removeprefix("=")
    words = [word for word in value.split(",") if word]
    return [
        name for name in names if any(name == word if exact else name.startswith(word) for word in words) is not others
    ]
