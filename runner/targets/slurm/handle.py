"""One run as a job: submitted, followed by the files that its nodes write, and out of the queue at the end."""

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
from runner.targets.slurm.ends import NodeFile, describe_end, describe_refusal, ends, read_log
from runner.targets.slurm.script import FOLDER, PYTHON, job_name
from runner.targets.slurm.watch import JobWatch
from runner.targets.worker_logs import WorkersHandle

END_SECONDS = 30.0
"""How long a killed job may stay in the queue."""


class SlurmHandle(WorkersHandle):
    """The job of one run; `text` is its script, with the run's id."""

    nodes: Sequence[NodeFile]

    def __init__(self, spec: LaunchSpec, text: str, folder: RunFolder, *, is_observed: bool = False) -> None:
        nodes = [NodeFile(folder, node, lambda: self._watch) for node in range(len(spec.nodes))]
        super().__init__(folder, nodes, [node.processes for node in spec.nodes])
        self._spec, self._text, self._is_observed = spec, text, is_observed
        self._sbatch: subprocess.Popen[bytes] | None = None
        self._is_submitted = False
        self._watch: JobWatch | None = None
        self._is_stopped = False

    @property
    def waited_seconds(self) -> float:
        """Time in the queue, which does not count as time of the run."""
        return self._watch.waited_seconds if self._watch else 0.0

    def _exits(self) -> list[NodeExit]:
        return ends(self.nodes, self._watch, read_log(self._folder), stopped=self._is_stopped)

    def stop(self) -> None:
        """Take the job out of the queue; safe to call again."""
        has_ended = self._watch is not None and self._watch.has_ended  # by itself, or by Slurm
        self._is_stopped = self._is_stopped or not has_ended
        if self._is_submitted and self._watch is None:  # Ctrl-C meanwhile, or sbatch failed
            with suppress(OSError):
                self._take()
        if self._is_submitted and self._watch is None:  # sbatch gave no answer: there may be a job
            name = job_name("", "", self._folder.path.name)
            try:
                commands.end_jobs(name)
            except OSError as error:
                seen = shlex.join(["squeue", "--me", f"--name={name}"])
                self.left = f"{error}: a job may be left behind; {seen} shows it, and scancel ends it"
        self._end()
        take_away(self._folder)
        if self._watch:
            self._watch.close()

    def _start(self) -> Iterator[Note | None]:
        """Submit the job by a process that Ctrl-C does not reach, so that its id is always known."""
        for node in self.nodes:
            self._folder.open_agent(node.number).close()
        own: dict[str, str] = {} if self._spec.options.get("python") else {PYTHON: sys.executable}
        if self._is_observed:
            own |= variables(bring(self._folder), os.environ.get("PYTHONPATH", ""))
        self._is_submitted = True
        self._sbatch = commands.begin(
            ["sbatch", "--parsable", "--export=ALL", "--output=/dev/null"],
            self._text,
            cwd=self._spec.cwd,
            env=commands.environment(**own, **{FOLDER: str(self._folder.path.resolve())}),
        )
        yield None
        self._take()
        if self._watch:
            yield Note(f"job {self._watch.job} is submitted")

    def _take(self) -> None:
        """Read the job's id; safe to call again if it was interrupted."""
        if self._sbatch:  # it prints ID, or ID;CLUSTER
            self._watch = JobWatch(commands.finish("sbatch", self._sbatch).partition(";")[0].strip())

    def _said(self) -> Iterator[Note]:
        if self._watch:
            while self._watch.notes:
                yield self._watch.notes.popleft()
            self._require_first(self._watch)

    def _finish(self) -> Iterator[Note | None]:
        """Wait until the job has left the queue, unless all nodes ended well: then there is no more to learn."""
        watch = self._watch
        if watch is None:
            return
        if any(node.failed for node in self.nodes):
            until = clock.monotonic() + END_SECONDS
            while not watch.has_ended and clock.monotonic() < until:
                yield None
                self._require_first(watch)
                clock.sleep(0.05)
            if not watch.has_ended:
                self._end()
            if not self._is_stopped and (refusal := describe_refusal(watch)):
                raise OSError(refusal)
            if not self._is_stopped and (said := describe_end(watch)):
                yield Note(said)
        take_away(self._folder)
        watch.close()

    def _require_first(self, watch: JobWatch) -> None:
        """Raise OSError for a job that starts again, which would overwrite its files, or that will never start."""
        if watch.restarts:
            raise OSError(f"Slurm requeued job {watch.job}: make its run again with: runner run ... --missing")
        if watch.hopeless:
            raise OSError(f"job {watch.job} will never start: {watch.hopeless}")

    def _end(self) -> None:
        """Cancel the job; kill what does not end."""
        watch = self._watch
        if watch is None or watch.has_ended:
            return
        self._is_stopped = True  # so Slurm's word for the end is about this, and not about the nodes that had ended
        for node in self.nodes:
            node.stopped = node.stopped or node.exit is None
        try:
            commands.ask(watch.job)
            if watch.wait_for_end(commands.ASKED_SECONDS):
                return
            commands.kill([watch.job, *(part.number for part in watch.components if part.number != watch.job)])
            if watch.wait_for_end(END_SECONDS):
                return
            why = "it does not leave the queue"
        except OSError as error:
            why = str(error)
        self.left = f"job {watch.job}: {why}: left behind; scancel {watch.job}"
