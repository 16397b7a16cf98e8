"""The environment of what is started, without what another launcher has left in it.

It is of the standard library alone: it runs on hosts too (`ssh.on_host`).
"""

import os

_STALE = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")


def clean_environment(*begins: str) -> dict[str, str]:
    """Return this process's environment without the variables of a launcher, and those whose names begin so."""
    left_out = ("PET_", "TORCHELASTIC_", *begins)
    return {name: value for name, value in os.environ.items() if name not in _STALE and not name.startswith(left_out)}
