"""How a job and its nodes ended: by the file of each node, and by Slurm's word for the job."""

import re
from collections.abc import Callable, Sequence

from runner.core import clock
from runner.records.folder import RunFolder
from runner.records.schema import NodeExit, decode
from runner.targets import node_view
from runner.targets.base import FollowedNode
from runner.targets.node_view import NodeView
from runner.targets.slurm import commands
from runner.targets.slurm.script import AGAIN, NO_FOLDER, NO_PROJECT
from runner.targets.slurm.watch import JobState
from trainkit import files

LARGEST = 100_000
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
"""States in which a job was ended from outside: what its processes left as exit codes says nothing of them."""
_STARVED = re.compile(
    r"slurmstepd-(\S{1,64}): error: Detected \d+ oom.kill event|: (\S{1,64}): tasks? [^:\n]{1,200}: Out Of Memory"
)
_LATE_SECONDS = 3.0
"""So long the file of a node may take to be seen after its job has left the queue: file systems cache."""


class NodeFile(FollowedNode):
    """One node, which writes how its launcher ended into a file of the run's folder.

    `job` returns what Slurm says of the job; None before it is submitted.
    """

    def __init__(self, folder: RunFolder, number: int, job: Callable[[], JobState | None]) -> None:
        super().__init__(number)
        self._folder, self._job = folder, job
        self._path = folder.raw / f"node{number}-exit.json"
        self._missed = 0.0

    @property
    def exit(self) -> NodeExit | None:
        """How the node ended, as it reported; None if it has not."""
        if self._exit is None:
            try:
                found = decode(files.read_file(self._path, LARGEST, below=self._folder.path), NodeExit)
            except (OSError, ValueError):
                return None
            self._exit = found if found.node == self.number else None
        return self._exit

    @property
    def ended(self) -> bool:
        """Whether the launcher has ended, or the job with it."""
        if self.exit is not None:
            return True
        job = self._job()
        if job is None or not job.has_ended:
            return False
        self._missed = self._missed or clock.monotonic()
        return clock.monotonic() - self._missed > _LATE_SECONDS

    @property
    def failed(self) -> bool:
        """Whether it has ended with anything but exit code 0."""
        return self.ended if self.exit is None else self.exit.code != 0

    def wait(self, seconds: float) -> None:
        """Wait a moment."""
        clock.sleep(seconds)

    def look(self, *, abort: bool) -> NodeView:
        """Look at the processes with the run's mark, by a step beside the one that runs."""
        job = self._job()
        components = job.components if job else []
        mark = self._folder.path.name
        try:
            places = [(group, name) for group, part in enumerate(components) for name in commands.hostnames(part.nodes)]
            if job is None or self.number >= len(places):
                return NodeView(self.number, trouble="Slurm names no such node of the job")
            group, name = places[self.number]
            chosen = [f"--jobid={job.job}", *([f"--het-group={group}"] if len(components) > 1 else [])]
            step = ["srun", *chosen, "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={name}", "--mem=0", "--quiet"]
            printed = commands.call([*step, *node_view.command_here(mark, abort=abort)], seconds=node_view.SECONDS)
            seen = node_view.read(printed.encode())
        except (OSError, ValueError) as error:
            return NodeView(self.number, trouble=str(error))
        return seen.of_node(self.number, "its torchrun is not there")

    def idle(self) -> NodeView | None:
        """Return why nothing runs on it: its launcher has ended, or its job does not run."""
        job, why = self._job(), ""
        if self.exit is not None:
            why = "its torchrun has ended"
        elif job is None or not job.components:
            why = "its job is not submitted yet"
        elif job.has_ended:
            why = "its job has ended"
        elif job.pending:
            why = f"its job is {job.pending}"
        return NodeView(self.number, idle=why) if why else None


def state_of(watch: JobState | None) -> str:
    """Return the state of a job that says most: of a heterogeneous one, that of the part that did not complete."""
    says_less = {"CANCELLED": 1, "COMPLETED": 2}
    states = [part.state for part in watch.components] if watch else []
    return min(states, key=lambda state: says_less.get(state, 0), default="")


def describe_refusal(watch: JobState) -> str:
    """Return in one line what kept a job's script from starting the processes; empty if it did not say so itself."""
    code = next((part.exit_code for part in watch.components if part.exit_code in _CODES), 0)
    return f"job {watch.job}: {_CODES[code]}" if code else ""


def describe_end(watch: JobState) -> str:
    """Return in one line how Slurm ended a job; empty if its processes ended by themselves."""
    job, state = f"job {watch.job}", state_of(watch)
    if refusal := describe_refusal(watch):
        return refusal
    if state == "TIMEOUT":
        limit = next((part.limit for part in watch.components if part.state == state), "")
        return f"{job}: Slurm ended it at its limit of time, {limit}: ask for more with --with time=..."
    reason = next((part.reason for part in watch.components if part.state == state and part.reason), "")
    if state in _STATES:
        return f"{job}: {_STATES[state]}{f' ({reason})' if reason and reason != state.title() else ''}"
    return ""


def _describe_loss(watch: JobState, log: str | None) -> str:
    """Return in one line what is known of a job whose node has not reported how its launcher ended."""
    if not watch.components:
        return f"job {watch.job}: Slurm does not know it any more, and forgot it before it was asked how it ended"
    nodes = ",".join(part.nodes for part in watch.components if part.nodes)
    where = f"the log of slurmd on {nodes} says why" if nodes else "it had no node"
    done = "its script did not begin" if log is None else "this node did not report how torchrun ended"
    return f"job {watch.job}: Slurm says {state_of(watch)}, but {done}: {where}"


def read_log(folder: RunFolder) -> str | None:
    """Return the end of what the job's script and srun printed; None if the script did not begin."""
    try:
        with files.open_file(folder.raw / "job.log", folder.path) as file:
            file.seek(max(0, file.seek(0, 2) - LARGEST_LOG))
            return file.read(LARGEST_LOG).decode("utf-8", "replace")
    except OSError:
        return None


def starved(log: str) -> set[str]:
    """Return the names of the nodes on which a process of the job ran out of memory, as Slurm wrote into its output."""
    return {name for pair in _STARVED.findall(log) for name in pair if name}


def ends(nodes: Sequence[NodeFile], watch: JobState | None, log: str | None, *, stopped: bool) -> list[NodeExit]:
    """Return how each node ended.

    `log` is the end of what the job's script and srun printed, None if the script did not begin; `stopped` says that
    the runner has ended the job.
    """
    state, said, without_memory = state_of(watch), describe_end(watch) if watch else "", starved(log or "")
    found = [_end(node, state, said, stopped=stopped) for node in nodes]
    for ended in found:
        is_lost = ended.code is None and not (ended.signal or ended.stopped or ended.why or stopped)
        if watch and watch.has_ended and is_lost:
            ended.why = _describe_loss(watch, log)
        ended.out_of_memory = ended.code != 0 and ended.place.get("machine") in without_memory
    if state == "OUT_OF_MEMORY" and not any(ended.out_of_memory for ended in found):
        for ended in found:
            ended.out_of_memory = ended.code != 0
    return found


def _end(node: NodeFile, state: str, said: str, *, stopped: bool) -> NodeExit:
    found = node.exit
    ended = NodeExit(node.number, found.code, found.signal, place=found.place) if found else NodeExit(node.number)
    ended.stopped = node.stopped or (stopped and found is None)
    if ended.code == 0 or ended.stopped or stopped:
        return ended
    ended.why = said or None
    if state == "TIMEOUT":
        ended.stopped_because = "timed_out"
    if state in _STATES:
        ended.code = ended.signal = None
    return ended
