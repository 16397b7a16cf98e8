"""Target `slurm`: a batch job of a Slurm cluster for each run, with one torchrun on each of its nodes."""

import math
import shutil
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import ClassVar, Literal

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.definitions.plan import Run
from runner.records.folder import RunFolder
from runner.targets.base import BEYOND_SECONDS, LaunchSpec, Target, option
from runner.targets.observing import is_observed, take_away
from runner.targets.slurm import commands
from runner.targets.slurm.handle import SlurmHandle
from runner.targets.slurm.script import ScriptOptions, job_name, script
from runner.targets.torchrun import node_specs

_DIRECTIVES = ("partition", "account", "qos", "constraint", "reservation", "nodelist", "exclude", "mem")


@dataclass(frozen=True)
class Options:
    """The options of target slurm; each but the last three is sbatch's own, and goes to every component of a job."""

    partition: str = option("partition of the job; by default the cluster's own")
    time: str = option("limit of time, for example 00:30:00; by default the run's time-out and ten minutes")
    account: str = option("account that the job is charged to")
    qos: str = option("quality of service")
    constraint: str = option("features that the nodes have to have, for example a100")
    reservation: str = option("reservation that the job runs in")
    nodelist: str = option("nodes that the job has to have, for example n[0-1]")
    exclude: str = option("nodes that the job must not have")
    mem: str = option("memory of each node, for example 16G; by default the cluster's")
    python: str = option("python of an environment that all nodes see; by default the runner's own")
    container: str = option("image that the processes run in: a .sif file, or a name with its registry")
    container_runtime: Literal["apptainer", "pyxis"] = option(
        "what starts the container: apptainer, or Slurm's plugin pyxis", "apptainer"
    )


@dataclass(frozen=True)
class SlurmSpec(LaunchSpec):
    """A run as a batch script; once started, the job is named by its run."""

    run: Run = field(kw_only=True, repr=False)
    script_options: ScriptOptions = field(kw_only=True)
    file: ClassVar[str] = "job.sbatch"

    def text(self, run_id: str = "") -> str:
        """Write the script."""
        name = job_name(self.run.experiment.name, str(self.run.cell.layout), run_id)
        header = f"{self.run.experiment.name} {self.run.cell}. Again, from the project's folder: sbatch job.sbatch"
        return script(self.run, name, self.script_options, one_line(header))


class Slurm(Target[SlurmSpec]):
    """Submits batch jobs."""

    name: ClassVar[str] = "slurm"
    summary: ClassVar[str] = "batch jobs of the Slurm cluster that this machine submits to; one torchrun on each node"
    observes: ClassVar[bool] = True
    Options: ClassVar[type] = Options

    def spec(self, run: Run) -> SlurmSpec:
        """Build the script of a run."""
        options = self.options
        minutes = math.ceil((run.experiment.timeout_seconds + BEYOND_SECONDS) / 60)
        chosen = {name: getattr(options, name) for name in _DIRECTIVES if getattr(options, name)}
        directives = tuple({"time": options.time or str(minutes), **chosen}.items())
        python = options.python or ("python3" if options.container else "")
        return SlurmSpec(
            node_specs(run.cell, "node0", run.device),
            str(run.experiment.root),
            run.device,
            asdict(options),
            run=run,
            script_options=ScriptOptions(directives, python, options.container, options.container_runtime),
        )

    def preflight(self, spec: SlurmSpec) -> None:
        """Let Slurm check the job without submitting it."""
        if missing := [name for name in commands.NEEDED if shutil.which(name) is None]:
            where = "target slurm runs where jobs are submitted, on a login node"
            raise RequestError(f"there is no {' and no '.join(missing)} here: {where}")
        try:
            _test(spec.text(), spec.cwd)
        except commands.SlurmError as error:
            chosen = ", ".join(f"{name}={value}" for name, value in spec.script_options.directives)
            raise RequestError(one_line(f"Slurm refuses {spec.run.cell.layout} with {chosen}: {error}")) from None

    def start(self, spec: SlurmSpec, folder: RunFolder) -> SlurmHandle:
        """Prepare the start; reading the lines submits the job, so that a stop finds it."""
        observed = is_observed(spec.run) and not self.options.container  # nobody knows the PYTHONPATH of its image
        return SlurmHandle(spec, spec.text(folder.path.name), folder, is_observed=observed)

    def cleanup(self, folder: RunFolder) -> None:
        """End the jobs of the run; OSError if they stay in the queue."""
        commands.end_jobs(job_name("", "", folder.path.name))
        take_away(folder)


@cache
def _test(text: str, cwd: str) -> None:
    """Let Slurm check a script; repeats of a cell have the same one."""
    commands.call(["sbatch", "--test-only", "--export=ALL", "--output=/dev/null", f"--chdir={cwd}"], text)
