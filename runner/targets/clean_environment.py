"""The environment of what is started, without what another launcher left in it.

Standard library only: it runs on hosts too (`ssh.on_host`, and checks there).
"""

import os

WITHOUT_GPU = {"CUDA_VISIBLE_DEVICES": "", "ACCELERATE_USE_CPU": "true"}
"""Hides the GPUs; Accelerate and Transformers form a group without one only if told to."""
_STALE = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK"),
    *("MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS"),
)
_LAUNCHERS = (
    *("PET_", "TORCHELASTIC_", "SLURM_", "SLURMD_", "PMI_", "PMIX_", "PALS_", "OMPI_COMM_WORLD_", "MV2_COMM_WORLD_"),
    *("MPI_LOCAL", "JSM_NAMESPACE_", "FLUX_"),
)
"""Prefixes by which programs see that they are a step of a job, as in a shell of `srun --pty bash`."""
_NEEDED = ("SLURM_CONF", "SLURM_TMPDIR", "SLURM_SUBMIT_DIR", "SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE")
"""Exceptions: programs and commands look these up, and they say nothing about a group of processes."""


def clean_environment(*begins: str) -> dict[str, str]:
    """Return this process's environment without a launcher's variables, and without those of these prefixes."""
    return {name: value for name, value in os.environ.items() if not _is_left_out(name, begins)}


def _is_left_out(name: str, begins: tuple[str, ...]) -> bool:
    return name in _STALE or name.startswith(begins) or (name.startswith(_LAUNCHERS) and name not in _NEEDED)
