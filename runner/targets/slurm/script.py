"""Batch script of a run: one task per node, in which torchrun starts the ranks.

If nodes have different process counts, the job is heterogeneous (sbatch(1), "hetjob"). Each component then has
consecutive nodes with equal counts. The script can also be submitted by hand.
"""

import re
import shlex
from dataclasses import dataclass
from itertools import groupby

from runner.core.secrets import MASK
from runner.definitions.plan import Run
from runner.targets.torchrun import identity_of, node_command, node_environment

CELL = "#KIT "
"""Prefix of the line with the job's experiment and cell as JSON."""
FOLDER = "KIT_RUN_FOLDER"
PYTHON = "KIT_PYTHON"
NO_PROJECT, NO_FOLDER, AGAIN = 72, 73, 74
"""Exit codes of the script: a node cannot see the project or the run's folder, or the job was requeued."""
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


@dataclass(frozen=True)
class ScriptOptions:
    """Options of a batch script."""

    directives: tuple[tuple[str, str], ...] = ()
    """Names and values of sbatch options, for every component."""
    python: str = ""
    container: str = ""
    runtime: str = "apptainer"


def job_name(experiment: str, layout: str, run_id: str = "") -> str:
    """Return a job's name. If `run_id` is given, the name contains only this id, by which the runner finds the job."""
    return f"kit-{run_id}" if run_id else f"kit-{experiment}-{layout}"


def script(run: Run, name: str, options: ScriptOptions, header: str) -> str:
    """Return the batch script of a run. Equal arguments give an equal script."""
    parts = [(len(list(equal)), processes) for processes, equal in groupby(run.cell.layout.processes)]
    lines = ["#!/bin/bash", *(f"# {line}".rstrip() for line in header.splitlines()), f"{CELL}{identity_of(run)}"]
    for number, (nodes, processes) in enumerate(parts):
        lines += ["#SBATCH hetjob"] if number else []
        lines += [_directive("job-name", name), "#SBATCH --no-requeue"]
        lines += [_directive(*directive) for directive in options.directives]
        lines += [f"#SBATCH --nodes={nodes}", "#SBATCH --ntasks-per-node=1"]
        lines += [f"#SBATCH --cpus-per-task={processes * run.cell.threads_per_process}"]
        if run.device == "cuda":
            lines += [f"#SBATCH --gpus-per-node={processes * run.cell.devices_per_process}"]
    return "\n".join([*lines, _body(run, options, parts), ""])


def cell_of(text: str) -> str:
    """Return a script's experiment and cell as JSON. Raises ValueError if the first 60 lines do not contain them."""
    for line in text.splitlines()[:60]:
        if line.startswith(CELL):
            return line[len(CELL) :]
    raise ValueError(f"no line begins with '{CELL.strip()}'")


def _directive(name: str, value: str) -> str:
    """Return a directive line. Special characters are quoted: sbatch splits a value at spaces and ends it at `#`."""
    return f"#SBATCH --{name}={value}" if _PLAIN.fullmatch(value) else f"#SBATCH --{name}='{value}'"


def _body(run: Run, options: ScriptOptions, parts: list[tuple[int, int]]) -> str:
    cell = run.cell
    exports = {"PET_NNODES": str(cell.layout.nodes), **node_environment(cell, run.device)}
    search = exports.pop("PYTHONPATH", "")
    # A secret comes from the environment of sbatch.
    lines = [f"export {name}={shlex.quote(value)}" for name, value in exports.items() if value != MASK]
    if search:
        lines.append(f"export PYTHONPATH={shlex.quote(search)}${{PYTHONPATH:+:$PYTHONPATH}}")
    python = shlex.quote(options.python) if options.python else f'"${{{PYTHON}:-python3}}"'
    words = shlex.join(node_command(cell)[1:])
    inside = plugin = ""
    image = shlex.quote(options.container)
    if options.container and options.runtime == "apptainer":
        gpus = "--nv " if run.device == "cuda" else ""
        inside = f'apptainer exec {gpus}--bind "$PWD" --bind "$run" --pwd "$PWD" {image} \\\n    '
    elif options.container:
        plugin = f'--container-image={image} --container-mounts="$PWD:$PWD,$run:$run" --container-workdir="$PWD" '
    steps = []
    for number, (_, processes) in enumerate(parts):
        cores = processes * cell.threads_per_process
        group = f"--het-group={number} --cpus-per-task={cores} " if len(parts) > 1 else ""
        steps.append(f"{group}{plugin}bash -c 'node {processes}'")
    return _BODY.format(
        experiment=shlex.quote(run.experiment.name),
        exports="\n".join(lines),
        torchrun=f"{inside}{python} -u -m torch.distributed.run {words}",
        steps=" : \\\n  ".join(steps),
        cores=parts[0][1] * cell.threads_per_process,
        folder=FOLDER,
        again=AGAIN,
        no_project=NO_PROJECT,
        no_folder=NO_FOLDER,
    )


_BODY = """
# A requeued job would overwrite its output.
[ "${{SLURM_RESTART_COUNT:-0}}" = 0 ] || exit {again}
# The project and the results must be on a shared file system.
cd -- "$SLURM_SUBMIT_DIR" || exit {no_project}
run=${{{folder}:-$PWD/results/{experiment}/$(date -u +%Y%m%dT%H%M%SZ)-slurm-$(printf %08x "$SLURM_JOB_ID")}}
if [ -z "${{{folder}:-}}" ]; then
  mkdir -p "$run/raw" "$run/request" "$run/artifacts" && cp -- "$0" "$run/request/job.sbatch" || exit {no_folder}
fi
[ -d "$run/raw" ] || exit {no_folder}
exec >> "$run/raw/job.log" 2>&1

export run KIT_RUN_ID="${{run##*/}}" KIT_ARTIFACTS="$run/artifacts"
{exports}

# Use the address by which Slurm reaches the node, and a port per job, since jobs can share a node.
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
PET_MASTER_ADDR=$(scontrol --oneliner show node "$first" | sed -n 's/.* NodeAddr=\\([^ ]*\\).*/\\1/p')
PET_MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export PET_MASTER_ADDR="${{PET_MASTER_ADDR:-$first}}" PET_MASTER_PORT
# Since Slurm 22.05, srun does not inherit --cpus-per-task and may bind a task to one core.
export SRUN_CPUS_PER_TASK="${{SLURM_CPUS_PER_TASK:-{cores}}}"

# node PROCESSES: run torchrun, the node's only task, and write how it ended beside its output.
node() {{
  local code ended kept="$run/raw/node$SLURM_PROCID"
  cd -- "$SLURM_SUBMIT_DIR" || exit {no_project}
  mkdir -p "$kept" || exit {no_folder}
  export PET_NODE_RANK=$SLURM_PROCID PET_NPROC_PER_NODE=$1 PET_LOG_DIR="$kept"
  trap : TERM INT  # torchrun receives the signal too; wait until it has ended
  {torchrun} \\
    >> "$kept-agent.log" 2>&1
  code=$?
  ended="\\"code\\":$code"
  [ "$code" -le 128 ] || ended="\\"signal\\":\\"SIG$(kill -l "$code")\\""
  printf '{{"node":%d,%s,"place":{{"machine":"%s","job":"%s"}}}}\\n' \\
    "$SLURM_PROCID" "$ended" "$SLURMD_NODENAME" "$SLURM_JOB_ID" > "$kept-exit.tmp"
  mv -- "$kept-exit.tmp" "$kept-exit.json"
  return "$code"
}}
export -f node
srun --kill-on-bad-exit=0 {steps}"""
