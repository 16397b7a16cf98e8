"""Build the environment of started processes: this process's variables without those of other launchers.

Uses only the standard library, because the module also runs on SSH hosts (`ssh.on_host`).
"""

import os

WITHOUT_GPU = {"CUDA_VISIBLE_DEVICES": "", "ACCELERATE_USE_CPU": "true"}
"""Variables that hide the GPUs, and make Accelerate and Transformers form a process group on CPUs."""
_STALE = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK"),
    *("MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS"),
)
_LAUNCHERS = (
    *("PET_", "TORCHELASTIC_", "SLURM_", "SLURMD_", "PMI_", "PMIX_", "PALS_", "OMPI_COMM_WORLD_", "MV2_COMM_WORLD_"),
    *("MPI_LOCAL", "JSM_NAMESPACE_", "FLUX_"),
)
"""Prefixes of variables that make programs act as part of a job step, for example in a shell of `srun --pty bash`."""
_NEEDED = ("SLURM_CONF", "SLURM_TMPDIR", "SLURM_SUBMIT_DIR", "SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE")
"""Exceptions: variables that programs need and that do not describe a process group."""


def clean_environment(*begins: str) -> dict[str, str]:
    """Return this process's environment without launchers' variables and variables with a prefix in `begins`."""
    return {name: value for name, value in os.environ.items() if not _is_left_out(name, begins)}


def _is_left_out(name: str, begins: tuple[str, ...]) -> bool:
    return name in _STALE or name.startswith(begins) or (name.startswith(_LAUNCHERS) and name not in _NEEDED)
