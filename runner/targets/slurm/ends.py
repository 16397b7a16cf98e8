"""How a job's nodes ended, from their exit files and the job's state in Slurm."""

import re
from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from runner.core import clock
from runner.records.folder import RunFolder, end_of
from runner.records.schema import NodeExit, decode
from runner.targets import node_view
from runner.targets.base import FollowedNode
from runner.targets.node_view import NodeView
from runner.targets.slurm import commands
from runner.targets.slurm.commands import ENDS
from runner.targets.slurm.watch import JobState

_LARGEST_LOG = 65_536
_STARVED = re.compile(
    r"slurmstepd-(\S{1,64}): error: Detected \d+ oom.kill event|: (\S{1,64}): tasks? [^:\n]{1,200}: Out Of Memory"
)
_LATE_SECONDS = 3.0
"""How long an exit file may take to appear after the job's end, because shared file systems cache."""


class NodeFile(FollowedNode):
    """Node of a job. How the launcher ended is read from a file that the job's script writes into the run's folder."""

    def __init__(self, folder: RunFolder, number: int, job: JobState) -> None:
        super().__init__(number)
        self._folder, self._job = folder, job
        self._path = folder.raw / f"node{number}-exit.json"
        self._missed = 0.0

    @property
    def exit(self) -> NodeExit | None:
        """How the node's launcher ended, from the node's exit file. None if there is no valid file."""
        if self._exit is None:
            with suppress(OSError, ValueError):
                self._exit = decode(self._path.read_bytes(), NodeExit)
        return self._exit

    @property
    def ended(self) -> bool:
        """Whether the launcher or the whole job has ended."""
        if self.exit is not None:
            return True
        if not self._job.has_ended:
            return False
        self._missed = self._missed or clock.monotonic()
        return clock.monotonic() - self._missed > _LATE_SECONDS

    @property
    def failed(self) -> bool:
        """Whether the node ended with anything but exit code 0."""
        return self.ended if self.exit is None else self.exit.code != 0

    def wait(self, seconds: float) -> None:
        """Sleep, because no thread waits for the launcher."""
        clock.sleep(seconds)

    def look(self, *, abort: bool) -> NodeView:
        """Inspect the run's processes on the node, from a second, overlapping job step."""
        job, parts = self._job, self._job.components
        try:
            places = [(group, name) for group, part in enumerate(parts) for name in commands.hostnames(part.nodes)]
            if self.number >= len(places):
                return NodeView(self.number, trouble="Slurm lists no such node of the job")
            group, name = places[self.number]
            chosen = [f"--jobid={job.job}", *([f"--het-group={group}"] if len(parts) > 1 else [])]
            step = ["srun", *chosen, "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={name}", "--mem=0", "--quiet"]
            look = node_view.command_here(self._folder.path.name, abort=abort)
            seen = node_view.read(commands.call([*step, *look], seconds=node_view.SECONDS).encode())
        except (OSError, ValueError) as error:
            return NodeView(self.number, trouble=str(error))
        return seen.of_node(self.number, "its torchrun is not there")

    def idle(self) -> NodeView | None:
        """Return why no process runs on the node. Returns None if a process may run."""
        job, why = self._job, ""
        if self.exit is not None:
            why = "its torchrun has ended"
        elif not job.components:
            why = "its job has not been submitted yet"
        elif job.has_ended:
            why = "its job has ended"
        elif job.pending:
            why = f"its job is {job.pending}"
        return NodeView(self.number, idle=why) if why else None


def _describe_loss(job: JobState, *, has_begun: bool) -> str:
    if not job.components:
        return f"job {job.job}: Slurm no longer knows the job, so how it ended is unknown"
    nodes = ",".join(part.nodes for part in job.components if part.nodes)
    where = f"see the log of slurmd on {nodes}" if nodes else "it had no node"
    done = "this node did not report how torchrun ended" if has_begun else "its script did not begin"
    return f"job {job.job}: Slurm reports {job.state}, but {done}: {where}"


def starved(log: str) -> set[str]:
    """Return the names of the nodes that ran out of memory, from Slurm's messages in the job's output."""
    return {name for pair in _STARVED.findall(log) for name in pair if name}


def ends(folder: RunFolder, nodes: Sequence[NodeFile], job: JobState, *, stopped: bool) -> list[NodeExit]:
    """Return how each node ended. `stopped` tells whether the runner ended the job."""
    path = folder.raw / "job.log"  # output of the job's script and srun
    without_memory, found = starved(end_of(path, _LARGEST_LOG)), []
    for node in nodes:
        ended = replace(node.exit or NodeExit(node.number), stopped=node.stopped or (stopped and node.exit is None))
        if ended.code != 0 and not ended.stopped and not stopped:
            ended.why = job.end or None
            if job.state == "TIMEOUT":
                ended.stopped_because = "timed_out"
            elif ENDS.get(job.state):  # ended from outside: the exit code is not the processes'
                ended.code = ended.signal = None
            if not job.end and job.has_ended and ended.code is None and ended.signal is None:
                ended.why = _describe_loss(job, has_begun=path.exists())
        ended.out_of_memory = ended.code != 0 and ended.place.get("machine") in without_memory
        found.append(ended)
    if job.state == "OUT_OF_MEMORY" and not any(ended.out_of_memory for ended in found):
        for ended in found:
            ended.out_of_memory = ended.code != 0
    return found
