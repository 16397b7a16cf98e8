"""Start a program that launches its own processes under torchrun, without torchrun's environment variables.

    torchrun --nproc-per-node 1 -m trainkit.alone train.py --epochs 2
    torchrun --nproc-per-node 1 -m trainkit.alone -m package.train --epochs 2

Otherwise a program that calls `torch.multiprocessing.spawn` would pass TORCHELASTIC_USE_AGENT_STORE to its processes,
and no process would create the store that all wait for (torch/distributed/rendezvous.py,
`_torchelastic_use_agent_store`). PET_ variables are hidden because they are defaults of torchrun's options: a nested
torchrun would try to bind the same port.
"""

import os
import sys

OF_A_PROCESS = frozenset(
    [
        *("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME"),
        *("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE"),
        *("MASTER_ADDR", "MASTER_PORT"),
    ]
)


def main() -> None:
    """Replace this process with the program, so that torchrun sees the program's exit code and signals."""
    own = {
        name: value
        for name, value in os.environ.items()
        if name not in OF_A_PROCESS and not name.startswith(("TORCHELASTIC_", "PET_"))
    }
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], own)  # noqa: S606


if __name__ == "__main__":
    main()
