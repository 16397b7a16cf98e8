"""Report what the processes of one node are doing. The script needs only the standard library.

    python -c <this file> [--abort] [MARK]

The script runs on a machine or in a container, and prints one line of JSON within `_SECONDS`. The line describes the
processes that have torchrun's variables and, if MARK is given, the run's mark (`children.MARK`). With `--abort`, ranks
that cannot be asked for their stack get SIGABRT, and Python writes the stack to stderr (PYTHONFAULTHANDLER).

Sources: proc(5), the states in include/net/tcp_states.h, and faulthandler's format (Python/traceback.c).
"""

from __future__ import annotations  # Python 3.8, which torch 2.3 supports, has no `list[str]`

# Importing pathlib would cost time.
# ruff: noqa: PTH115, PTH118, PTH119, PTH123, PTH208
import ast
import contextlib
import errno
import json
import os
import re
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

_SECONDS = 9
_CONNECT_SECONDS = 3.0
_STACK_SECONDS = 2.0
_LOOK_SECONDS = 0.3
_MOST_FRAMES = 60
_STACKS = "/memfd:kit-stacks "
_SIGNAL = signal.SIGRTMIN + 9
_SILENT = "TtZ"
"""Process states (proc(5)) in which no signal handler runs."""
_STATES = {1: "connected", 2: "connecting", 10: "listening"}
_FRAME = re.compile(r'  File "(.{0,500})", line (\d{1,9}) in (.{0,200})')
OF_LIBRARIES = ("/lib/python", "-packages/", "/torch/", "/trainkit/", "/hooks/sitecustomize.py", "<")
"""Path fragments of library code."""
REFUSED = "nothing listens there: it has not started, or that is another machine"
_SILENCE = "no answer: a firewall drops it, or no machine has that address"
_TROUBLES = {errno.EAGAIN: _SILENCE, errno.ETIMEDOUT: _SILENCE, errno.ECONNREFUSED: REFUSED}
"""Messages for connection errors; EAGAIN is Python's own time-out."""
_TOLD = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
MARK = "KIT-LOOK "


def look(mark: str = "", *, abort: bool = False) -> dict[str, Any]:
    """Return the launchers and ranks of this node in the form of `node_view.Seen`."""
    numbers = sorted(int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid())
    processes = [process for process in map(_process, numbers) if process]
    found = [process for process in processes if _is_of(process["environment"], mark)]
    ranks, sockets = _ranks(found), _sockets()
    agents = [process for process in found if _is_agent(process)]
    launchers = {agent["pid"] for agent in agents}
    titled = [process for process in processes if process["parent"] in launchers and process not in found]
    began = time.monotonic()
    for rank in ranks:
        rank["own"] = _own(rank["pid"], sockets)
        rank["retries"] = _retries(rank)
    _write_stacks(ranks)
    time.sleep(max(0.0, _LOOK_SECONDS - (time.monotonic() - began)))
    seconds = time.monotonic() - began
    for rank in ranks:
        later = _process(rank["pid"])
        rank["busy"] = round((later["cpu_seconds"] - rank["cpu_seconds"]) / seconds, 2) if later else 0.0
    described = [_rank(rank) for rank in ranks]
    if abort:
        _abort([rank for rank in ranks if not rank["stack"] and rank["state"] not in _SILENT])
    return {
        "host": socket.gethostname(),
        "agents": [_agent(agent, sockets) for agent in agents],
        "ranks": described,
        "nameless": sum(process["state"] != "Z" for process in titled),
    }


def _process(pid: int) -> dict[str, Any]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            words = file.read(1_000_000).decode("utf-8", "replace").split("\0")
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="ignore") as file:
            fields = file.read(10_000).rpartition(")")[2].split()
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read(100_000).decode("utf-8", "replace").split("\0")
    except OSError:
        return {}
    ticks = os.sysconf("SC_CLK_TCK")
    return {
        "pid": pid,
        "state": fields[0],
        "parent": int(fields[1]),
        "cpu_seconds": (int(fields[11]) + int(fields[12])) / ticks,
        "started": int(fields[19]),
        "command": command,
        "environment": dict(word.split("=", 1) for word in words if "=" in word),
    }


def _is_of(environment: dict[str, str], mark: str) -> bool:
    has = "PET_NNODES" in environment or "RANK" in environment
    return has and (not mark or environment.get("KIT_RUN_ID", "").startswith(mark))


def _ranks(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the process of each rank: the oldest of the processes that have the rank's variables."""
    ranks: dict[str, dict[str, Any]] = {}
    for process in sorted(found, key=lambda process: (process["started"], process["pid"])):
        rank = process["environment"].get("RANK", "")
        if rank.isdigit() and "LOCAL_RANK" in process["environment"]:
            ranks.setdefault(rank, process)
    return [ranks[rank] for rank in sorted(ranks, key=int)]


def _is_agent(process: dict[str, Any]) -> bool:
    """Return whether a process runs torchrun, and is neither a container's init nor a rank's child."""
    first, *rest = process["command"]
    is_torchrun = "python" in first and any(word.endswith(("torchrun", "torch.distributed.run")) for word in rest[:4])
    return is_torchrun and "LOCAL_RANK" not in process["environment"]


def _agent(agent: dict[str, Any], sockets: dict[str, Any]) -> dict[str, Any]:
    environment, command, state = agent["environment"], agent["command"], agent["state"]
    master, port = environment.get("PET_MASTER_ADDR", ""), environment.get("PET_MASTER_PORT", "")
    nodes = command[command.index("--nnodes") + 1] if "--nnodes" in command[:-1] else environment.get("PET_NNODES")
    own = _own(agent["pid"], sockets)
    listening = any(entry[0] == "listening" and entry[1].endswith(f":{port}") for entry in own)
    connected = any(entry[0] == "connected" and entry[2].endswith(f":{port}") for entry in own)
    may_try = not listening and not connected and state not in _SILENT and port.isdigit()
    return {
        "pid": agent["pid"],
        "state": state,
        "told": {"node": environment.get("PET_NODE_RANK"), "nodes": nodes, "master": master, "port": port},
        "listening": listening,
        "connected": connected,
        **(_attempt(master, int(port)) if may_try else {}),
    }


def _attempt(master: str, port: int) -> dict[str, Any]:
    """Resolve node 0's name and connect, as the launcher does. A thread limits the time that a name server may take."""
    seen = {"addresses": [], "trouble": f"no name server answers within {_CONNECT_SECONDS:.0f} s"}

    def attempt() -> None:
        try:
            found = socket.getaddrinfo(master, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            seen["trouble"] = f"the name does not resolve: {getattr(error, 'strerror', None) or error}"
            return
        seen.update(addresses=sorted({str(entry[4][0]) for entry in found}), trouble=_SILENCE)
        for family, kind, protocol, _, address in found[:4]:
            with contextlib.closing(socket.socket(family, kind, protocol)) as probe:
                probe.settimeout(_CONNECT_SECONDS / min(4, len(found)))
                code = probe.connect_ex(address)
                seen["trouble"] = _TROUBLES.get(code, os.strerror(code)) if code else ""
                if not code:
                    return

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(_CONNECT_SECONDS)
    if seen["addresses"]:
        thread.join(_CONNECT_SECONDS)
    return dict(seen)


def _rank(rank: dict[str, Any]) -> dict[str, Any]:
    environment = rank["environment"]
    return {
        **{name: rank[name] for name in ("pid", "state", "busy", "stack", "retries")},
        "rank": int(environment["RANK"]),
        "node": environment.get("GROUP_RANK"),
        "listening": sorted({entry[1] for entry in rank["own"] if entry[0] == "listening"})[:20],
        "connecting": sorted({entry[2] for entry in rank["own"] if entry[0] == "connecting"})[:20],
        "sets": _sets(rank),
    }


def _sockets() -> dict[str, tuple[str, str, str]]:
    found = {}
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"/proc/self/net/{table}", encoding="utf-8") as file:
            next(file, None)
            for line in file:
                fields = line.split()
                state = _STATES.get(int(fields[3], 16))
                if state:
                    found[fields[9]] = (state, _address(fields[1]), _address(fields[2]))
    return found


def _address(text: str) -> str:
    raw, _, port = text.partition(":")
    words = [bytes.fromhex(raw[start : start + 8]) for start in range(0, len(raw), 8)]
    data = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    if len(data) == 16 and data.startswith(b"\0" * 10 + b"\xff\xff"):  # IPv4-mapped IPv6
        data = data[12:]
    family = socket.AF_INET if len(data) == 4 else socket.AF_INET6
    return f"{socket.inet_ntop(family, data)}:{int(port, 16)}"


def _own(pid: int, sockets: dict[str, tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    inodes = [link[8:-1] for _, link in _open_files(pid) if link.startswith("socket:[")]
    return [sockets[inode] for inode in inodes if inode in sockets]


def _open_files(pid: int) -> Iterator[tuple[str, str]]:
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{name}"
            with contextlib.suppress(OSError):
                yield path, os.readlink(path)


def _write_stacks(ranks: list[dict[str, Any]]) -> None:
    asked = []
    for rank in ranks:
        rank["stack"], pid = [], rank["pid"]
        path = next((path for path, link in _open_files(pid) if link.startswith(_STACKS)), None)
        if path and rank["state"] not in _SILENT and not rank["retries"] and _handles(pid):
            with contextlib.suppress(OSError):
                file = open(path, "rb")  # noqa: SIM115 - closed with this process
                asked.append((rank, file, file.seek(0, 2)))
                os.kill(pid, _SIGNAL)
    end, sizes = time.monotonic() + _STACK_SECONDS, [0]
    while asked and time.monotonic() < end:
        time.sleep(0.05)
        before, sizes = sizes, [file.seek(0, 2) for _, file, _ in asked]
        if sizes == before and all(size > start for size, (*_, start) in zip(sizes, asked)):  # noqa: B905
            break
    for rank, file, start in asked:
        file.seek(start)
        rank["stack"] = main_thread(file.read(1_000_000).decode("utf-8", "replace"))


def _retries(rank: dict[str, Any]) -> bool:
    """Return whether a rank may be connecting to the group's store. A signal would end such a rank.

    In torch's sleep or poll, a signal counts as Ctrl-C (c10d/socket.cpp). Python's sleep resumes after a signal. Such a
    sleep is recognized by its absolute end.
    """
    port = f":{rank['environment'].get('MASTER_PORT')}"
    if rank["state"] != "S" or any(entry[0] == "connected" and entry[2].endswith(port) for entry in rank["own"]):
        return False
    places = {"wchan": "0", "syscall": ""}
    for name in places:
        with contextlib.suppress(OSError), open(f"/proc/{rank['pid']}/{name}", encoding="utf-8") as file:
            places[name] = file.read(1_000)
    is_python = places["syscall"].split()[1:3] == ["0x1", "0x1"]
    return places["wchan"] == "0" or "poll" in places["wchan"] or ("nanosleep" in places["wchan"] and not is_python)


def _handles(pid: int) -> bool:
    """Return whether a process handles `_SIGNAL`. The signal ends a process without a handler."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (_SIGNAL - 1) & 1)
    return False


def main_thread(text: str) -> list[list[Any]]:
    """Return the main thread's frames from faulthandler's output, innermost first. A frame is [file, line, function].

    The outermost frame of the main thread is a module. Other threads start in the threading module.
    """
    threads: list[list[list[Any]]] = []
    for line in text.splitlines():
        if "(most recent call first)" in line:
            threads.append([])
        elif threads and (frame := _FRAME.match(line)):
            threads[-1].append([frame.group(1), int(frame.group(2)), frame.group(3)])
    threads = [frames for frames in threads if frames]
    mains = [frames for frames in threads if frames[-1][2] in ("<module>", "_run_module_as_main")]
    return (mains or threads or [[]])[-1][:_MOST_FRAMES]


def _sets(rank: dict[str, Any]) -> list[str]:
    """Return the program's lines that override torchrun's variables.

    Returns [] if the rank is not joining a process group.
    """
    if not rank["retries"] and not any(frame[2] == "init_process_group" for frame in rank["stack"]):
        return []
    scripts = [os.path.join(f"/proc/{rank['pid']}/cwd", word) for word in rank["command"][1:4] if word.endswith(".py")]
    own = {frame[0] for frame in rank["stack"] if not any(part in frame[0] for part in OF_LIBRARIES)}
    sets = {}
    for file in [*scripts, *sorted(own)]:
        with contextlib.suppress(OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            with open(file, "rb") as source:
                tree = ast.parse(source.read(1_000_000))
            for line, name, value in _constants(tree):
                if rank["environment"].get(name) != value:
                    sets[name] = f"{os.path.basename(file)}:{line} sets {name}"
    return list(sets.values())


def _constants(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Yield the line, name and value of constants set as torchrun's variables.

    An `if` that tests such a variable is skipped.
    """
    if isinstance(tree, ast.If) and any(name in ast.dump(tree.test) for name in _TOLD):
        return
    if isinstance(tree, ast.Assign) and isinstance(tree.value, ast.Constant):
        for target in tree.targets:
            if isinstance(target, ast.Subscript) and "environ" in ast.dump(target.value):
                name = getattr(target.slice, "value", "")
                if name in _TOLD:
                    yield tree.lineno, name, str(tree.value.value)
    for child in ast.iter_child_nodes(tree):
        yield from _constants(child)


def _abort(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(rank["pid"], resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):
            os.kill(rank["pid"], signal.SIGABRT)
    if ranks:
        time.sleep(1)


if __name__ == "__main__":
    signal.alarm(_SECONDS)
    _words = sys.argv[1:]
    _seen = look(next((word for word in _words if not word.startswith("--")), ""), abort="--abort" in _words)
    os.write(1, f"\n{MARK}{json.dumps(_seen)}\n".encode())
    os._exit(0)  # a thread may still wait for a name server
