"""Target `slurm`: one batch job per run, with one torchrun per node."""

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
    """Options of target slurm. All except the last three become sbatch options of every component of a job."""

    partition: str = option("partition of the job (default: the cluster's)")
    time: str = option("time limit, e.g. 00:30:00 (default: the run's timeout plus ten minutes)")
    account: str = option("account that is charged for the job")
    qos: str = option("quality of service")
    constraint: str = option("required features of the nodes, e.g. a100")
    reservation: str = option("reservation that the job runs in")
    nodelist: str = option("nodes that the job must include, e.g. n[0-1]")
    exclude: str = option("nodes that the job must not use")
    mem: str = option("memory of each node, e.g. 16G (default: the cluster's)")
    python: str = option("Python interpreter that all nodes can see (default: the runner's)")
    container: str = option("image to run the processes in: a .sif file, or a name with its registry")
    container_runtime: Literal["apptainer", "pyxis"] = option(
        "container runtime: apptainer, or Slurm's plugin pyxis", "apptainer"
    )


@dataclass(frozen=True)
class SlurmSpec(LaunchSpec):
    """A run as a batch script. Once the run is started, the job is named after the run's id."""

    run: Run = field(kw_only=True, repr=False)
    script_options: ScriptOptions = field(kw_only=True)
    file: ClassVar[str] = "job.sbatch"

    def text(self, run_id: str = "") -> str:
        """Return the batch script."""
        name = job_name(self.run.experiment.name, str(self.run.cell.layout), run_id)
        header = f"{self.run.experiment.name} {self.run.cell}. To repeat, in the project's folder: sbatch job.sbatch"
        return script(self.run, name, self.script_options, one_line(header))


class Slurm(Target[SlurmSpec]):
    """Target that submits batch jobs."""

    name: ClassVar[str] = "slurm"
    summary: ClassVar[str] = "batch jobs of the Slurm cluster that this machine submits to, one torchrun per node"
    observes: ClassVar[bool] = True
    Options: ClassVar[type] = Options

    def spec(self, run: Run) -> SlurmSpec:
        """Return the spec of a run."""
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
        """Check that Slurm's commands exist and `sbatch --test-only` accepts the job."""
        if missing := [name for name in commands.NEEDED if shutil.which(name) is None]:
            where = "use target slurm where jobs are submitted, on a login node"
            raise RequestError(f"there is no {' and no '.join(missing)} here: {where}")
        try:
            _test(spec.text(), spec.cwd)
        except commands.SlurmError as error:
            chosen = ", ".join(f"{name}={value}" for name, value in spec.script_options.directives)
            raise RequestError(one_line(f"Slurm refuses {spec.run.cell.layout} with {chosen}: {error}")) from None

    def start(self, spec: SlurmSpec, folder: RunFolder) -> SlurmHandle:
        """Return a handle. The job is submitted only in `lines`, so the caller can always `stop` and end it."""
        observed = is_observed(spec.run) and not self.options.container  # the image's PYTHONPATH is unknown
        return SlurmHandle(spec, spec.text(folder.path.name), folder, is_observed=observed)

    def cleanup(self, folder: RunFolder) -> None:
        """End the run's jobs. Raises OSError if a job remains in the queue."""
        commands.end_jobs(job_name("", "", folder.path.name))
        take_away(folder)


@cache
def _test(text: str, cwd: str) -> None:
    commands.call(["sbatch", "--test-only", "--export=ALL", "--output=/dev/null", f"--chdir={cwd}"], text)
