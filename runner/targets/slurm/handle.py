"""Handle of a run's job, from submission to end."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress

from runner.core import clock
from runner.records.folder import RunFolder
from runner.records.schema import NodeExit
from runner.targets.base import LaunchSpec, Note
from runner.targets.observing import bring, take_away, variables
from runner.targets.slurm import commands
from runner.targets.slurm.ends import NodeFile, ends
from runner.targets.slurm.script import FOLDER, PYTHON, job_name
from runner.targets.slurm.watch import JobState
from runner.targets.worker_logs import WorkersHandle


class SlurmHandle(WorkersHandle):
    """Handle of a run's job; `text` is the batch script."""

    nodes: Sequence[NodeFile]

    def __init__(self, spec: LaunchSpec, text: str, folder: RunFolder, *, is_observed: bool = False) -> None:
        self._job = JobState()
        nodes = [NodeFile(folder, node, self._job) for node in range(len(spec.nodes))]
        super().__init__(folder, nodes, [node.processes for node in spec.nodes])
        self._spec, self._text, self._is_observed = spec, text, is_observed
        self._sbatch: subprocess.Popen[bytes] | None = None
        self._is_submitted = False
        self._is_stopped = False

    @property
    def waited_seconds(self) -> float:
        """Seconds that the job waited in the queue, which do not count as run time."""
        return self._job.waited_seconds

    def _exits(self) -> list[NodeExit]:
        return ends(self._folder, self.nodes, self._job, stopped=self._is_stopped)

    def stop(self) -> None:
        """End the job. Can be called again after an interrupt."""
        self._end()
        take_away(self._folder)
        self._job.close()

    def _start(self) -> Iterator[Note | None]:
        for node in self.nodes:
            self._folder.open_agent(node.number).close()
        own: dict[str, str] = {} if self._spec.options.get("python") else {PYTHON: sys.executable}
        if self._is_observed:
            own |= variables(bring(self._folder), os.environ.get("PYTHONPATH", ""))
        self._is_submitted = True
        # Ctrl-C does not reach sbatch, so sbatch always prints the job's id.
        self._sbatch = commands.begin(
            ["sbatch", "--parsable", "--export=ALL", "--output=/dev/null"],
            self._text,
            cwd=self._spec.cwd,
            env=commands.environment(**own, **{FOLDER: str(self._folder.path.resolve())}),
        )
        yield None
        self._take()
        yield Note(f"job {self._job.job} is submitted")

    def _take(self) -> None:
        if self._sbatch:  # prints ID or ID;CLUSTER
            self._job.watch(commands.finish("sbatch", self._sbatch).partition(";")[0].strip())

    def _said(self) -> Iterator[Note]:
        while self._job.notes:
            yield self._job.notes.popleft()
        self._job.require_first()

    def _finish(self) -> Iterator[Note | None]:
        """If a node failed, wait until the job has left the queue, and yield Slurm's reason."""
        job = self._job
        if any(node.failed for node in self.nodes):
            until = clock.monotonic() + commands.END_SECONDS
            while not job.has_ended and clock.monotonic() < until:
                yield None
                job.require_first()
                clock.sleep(0.05)
            if not job.has_ended:
                self._end()
            if not self._is_stopped and job.refusal:
                raise OSError(job.refusal)
            if not self._is_stopped and job.end:
                yield Note(job.end)
        take_away(self._folder)
        job.close()

    def _end(self) -> None:
        """End the job by its name: the id may be unknown after Ctrl-C, or if sbatch did not answer."""
        if self._job.has_ended:
            return
        self._is_stopped = True  # so that `ends` does not apply Slurm's state to nodes that ended before
        for node in self.nodes:
            node.stopped = node.stopped or node.exit is None
        if not self._is_submitted:
            return
        name = job_name("", "", self._folder.path.name)
        with suppress(OSError):
            if not self._job.job:
                self._take()
        try:
            commands.end_jobs(name)
        except OSError as error:
            seen = shlex.join(["squeue", "--me", f"--name={name}"])
            self.left = f"{error}: a job may be left behind; list it with {seen} and end it with scancel"
