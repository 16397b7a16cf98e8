"""How a job and its nodes ended: by the file of each node, and by Slurm's word for the job."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from runner.core import clock
from runner.records.folder import RunFolder, end_of
from runner.records.schema import NodeExit, decode
from runner.targets import node_view
from runner.targets.base import FollowedNode
from runner.targets.node_view import NodeView
from runner.targets.slurm import commands
from runner.targets.slurm.script import AGAIN, NO_FOLDER, NO_PROJECT
from runner.targets.slurm.watch import JobState

LARGEST_LOG = 65_536
_CODES = {
    NO_PROJECT: "a node does not see the folder that the job was submitted from: it has to be on a shared file system",
    NO_FOLDER: "a node does not see the run's folder: name one on a shared file system with --results",
    AGAIN: "Slurm has requeued it, and its script does not begin again: submit it again",
}
_STATES = {
    "CANCELLED": "Slurm says that the job was cancelled, not by this runner",
    "PREEMPTED": "Slurm preempted the job: another one needed its nodes",
    "NODE_FAIL": "Slurm says that a node of the job failed",
    "BOOT_FAIL": "Slurm says that a node could not be booted",
    "DEADLINE": "Slurm ended the job at its deadline",
    "REVOKED": "Slurm says that another cluster runs the job",
}
"""States of a job that was ended from outside: then the exit codes say nothing about its processes."""
_STARVED = re.compile(
    r"slurmstepd-(\S{1,64}): error: Detected \d+ oom.kill event|: (\S{1,64}): tasks? [^:\n]{1,200}: Out Of Memory"
)
_LATE_SECONDS = 3.0
"""How long a node's file may take to appear after its job has left the queue: file systems cache."""


class NodeFile(FollowedNode):
    """One node, which writes how its launcher ended into a file of the run's folder.

    `job` returns the state of its job.
    """

    def __init__(self, folder: RunFolder, number: int, job: Callable[[], JobState]) -> None:
        super().__init__(number)
        self._folder, self._job = folder, job
        self._path = folder.raw / f"node{number}-exit.json"
        self._missed = 0.0

    @property
    def exit(self) -> NodeExit | None:
        """How the node ended, as it reported; None if it has not."""
        if self._exit is None:
            with suppress(OSError, ValueError):
                self._exit = decode(self._path.read_bytes(), NodeExit)
        return self._exit

    @property
    def ended(self) -> bool:
        """Whether the launcher has ended, or the job with it."""
        if self.exit is not None:
            return True
        if not self._job().has_ended:
            return False
        self._missed = self._missed or clock.monotonic()
        return clock.monotonic() - self._missed > _LATE_SECONDS

    @property
    def failed(self) -> bool:
        """Whether it ended with anything but exit code 0."""
        return self.ended if self.exit is None else self.exit.code != 0

    def wait(self, seconds: float) -> None:
        """Wait a moment."""
        clock.sleep(seconds)

    def look(self, *, abort: bool) -> NodeView:
        """Look at the processes with the run's mark, by a step beside the one that runs."""
        job = self._job()
        parts = job.components
        try:
            places = [(group, name) for group, part in enumerate(parts) for name in commands.hostnames(part.nodes)]
            if self.number >= len(places):
                return NodeView(self.number, trouble="Slurm names no such node of the job")
            group, name = places[self.number]
            chosen = [f"--jobid={job.job}", *([f"--het-group={group}"] if len(parts) > 1 else [])]
            step = ["srun", *chosen, "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={name}", "--mem=0", "--quiet"]
            look = node_view.command_here(self._folder.path.name, abort=abort)
            seen = node_view.read(commands.call([*step, *look], seconds=node_view.SECONDS).encode())
        except (OSError, ValueError) as error:
            return NodeView(self.number, trouble=str(error))
        return seen.of_node(self.number, "its torchrun is not there")

    def idle(self) -> NodeView | None:
        """Return why nothing runs on it, if so."""
        job, why = self._job(), ""
        if self.exit is not None:
            why = "its torchrun has ended"
        elif not job.components:
            why = "its job is not submitted yet"
        elif job.has_ended:
            why = "its job has ended"
        elif job.pending:
            why = f"its job is {job.pending}"
        return NodeView(self.number, idle=why) if why else None


def describe_refusal(watch: JobState) -> str:
    """Return why a job's script did not start the processes, by its exit code; empty if it has another one."""
    code = next((part.exit_code for part in watch.components if part.exit_code in _CODES), 0)
    return f"job {watch.job}: {_CODES[code]}" if code else ""


def describe_end(watch: JobState) -> str:
    """Return in one line how Slurm ended a job; empty if its processes ended by themselves."""
    if refusal := describe_refusal(watch):
        return refusal
    state = watch.state
    parts = [part for part in watch.components if part.state == state]
    if state == "TIMEOUT":
        limit = f"Slurm ended it at its limit of time, {parts[0].limit}"
        return f"job {watch.job}: {limit}: ask for more with --with time=..."
    if state in _STATES:
        reason = next((f" ({part.reason})" for part in parts if part.reason not in ("", state.title())), "")
        return f"job {watch.job}: {_STATES[state]}{reason}"
    return ""


def _describe_loss(watch: JobState, log: str | None) -> str:
    """Return what is known of a job whose node did not report how its launcher ended."""
    if not watch.components:
        return f"job {watch.job}: Slurm does not know it any more, so how it ended is not known"
    nodes = ",".join(part.nodes for part in watch.components if part.nodes)
    where = f"the log of slurmd on {nodes} says why" if nodes else "it had no node"
    done = "its script did not begin" if log is None else "this node did not report how torchrun ended"
    return f"job {watch.job}: Slurm says {watch.state}, but {done}: {where}"


def read_log(folder: RunFolder) -> str | None:
    """Return the end of what the job's script and srun printed; None if the script did not begin."""
    path = folder.raw / "job.log"
    return end_of(path, LARGEST_LOG) if path.exists() else None


def starved(log: str) -> set[str]:
    """Return the names of the nodes that ran out of memory, as Slurm wrote into the job's output."""
    return {name for pair in _STARVED.findall(log) for name in pair if name}


def ends(nodes: Sequence[NodeFile], watch: JobState, log: str | None, *, stopped: bool) -> list[NodeExit]:
    """Return how each node ended.

    `log` is the end of what the job's script and srun printed, None if the script did not begin; `stopped` means that
    the runner ended the job.
    """
    state, said, without_memory = watch.state, describe_end(watch), starved(log or "")
    found = []
    for node in nodes:
        ended = replace(node.exit or NodeExit(node.number), stopped=node.stopped or (stopped and node.exit is None))
        if ended.code != 0 and not ended.stopped and not stopped:
            ended.why = said or None
            ended.stopped_because = "timed_out" if state == "TIMEOUT" else None
            if state in _STATES:
                ended.code = ended.signal = None
            is_lost = ended.code is None and ended.signal is None and not said
            if is_lost and watch.has_ended:
                ended.why = _describe_loss(watch, log)
        ended.out_of_memory = ended.code != 0 and ended.place.get("machine") in without_memory
        found.append(ended)
    if state == "OUT_OF_MEMORY" and not any(ended.out_of_memory for ended in found):
        for ended in found:
            ended.out_of_memory = ended.code != 0
    return found
