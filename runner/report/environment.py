"""Variables of the environment that decide how fast a run is: what has to be the same in all runs of a claim."""

import re
from collections.abc import Iterable
from typing import Any

from runner.core.text import listed, one_line

MOST = 100
_LONGEST = 200
_COMPARED = re.compile(r"(?:NCCL|GLOO|OMP|TORCH|PYTORCH)_\w{1,100}")
_LEFT_OUT = re.compile(
    r"OMP_NUM_THREADS"  # the threads of a process are compared as torch counts them
    r"|NCCL_DEBUG.*|.*_(?:LOGS?|LOG_\w+|STACKTRACES|DUMP\w*|VERSION)|NCCL_.*WARN\w*"  # what is printed
    r"|.*_(?:SOCKET_IFNAME|COMM_ID|HOSTID|ADDR|PORT)"  # interfaces and addresses, for example NCCL_SOCKET_IFNAME
    r"|.*_(?:\w*FILE|DIR|PATH|HOME)"  # places
    r"|.*_ASYNC_ERROR_HANDLING|TORCH_CPU",  # torchrun's own, which changes with its version; the image's
)


def speed_variables(facts: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the variables of a run's processes that change its speed, by name.

    Left out are those that name places, addresses or interfaces, and those that say what is printed.
    """
    found: dict[str, set[str]] = {}
    for own in facts:
        env = own.get("env")
        for name, value in env.items() if isinstance(env, dict) else ():
            is_compared = _COMPARED.fullmatch(name) and not _LEFT_OUT.fullmatch(name)
            if is_compared and (name in found or len(found) < MOST):
                found.setdefault(name, set()).add(one_line(value, _LONGEST))
    return {name: listed(sorted(found[name])) for name in sorted(found)}
