"""Slurm's own commands, each with a limit of time; what they print is read, never run."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.targets.clean_environment import clean_environment

SECONDS = 30.0
"""How long a command may take: slurmctld may be busy, or gone, which takes its own time-outs to be seen."""
NEEDED = ("sbatch", "scontrol", "scancel", "squeue")
ENDED = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",
    "TIMEOUT",
)  # fmt: skip
_GONE = "Invalid job id"
_ID = re.compile(r"(\d{1,12})(?:;[^\n]*)?")
_ACCOUNTED = ("JobIDRaw", "State", "ExitCode", "NodeList", "Timelimit")
_LONGEST_CODE = 6
_FIELD = re.compile(r"(?:^| )([A-Za-z][\w/:]{0,40})=(\S*)")


class SlurmError(OSError):
    """A command of Slurm refused, failed, or did not answer; `is_absence` if it knows no such job."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.is_absence = _GONE in text


@dataclass(frozen=True)
class Component:
    """One component of a job, or all of it, as `scontrol show job` describes it.

    Attributes:
        number: its own job id; of a heterogeneous job each component has one.
        state: one word of squeue(1), JOB STATE CODES.
        reason: why it waits or ended; empty if Slurm gives none.
        nodes: the names of its nodes as a list expression, for example `n[0-3]`; empty before it starts.
        restarts: how often it was requeued.
        exit_code: that of the script, 0 if it was killed.
        limit: its limit of time, as Slurm writes it.
    """

    number: str
    state: str
    reason: str
    nodes: str
    restarts: int
    exit_code: int
    limit: str

    @property
    def has_ended(self) -> bool:
        """Whether it has left the queue."""
        return self.state in ENDED


def environment(**more: str) -> dict[str, str]:
    """Return the caller's environment, less what a job or another launcher may have left in it."""
    kept = {name: os.environ[name] for name in ("SLURM_CONF", "SLURM_CLUSTERS") if name in os.environ}
    return {**clean_environment("SLURM_", "SBATCH_", "SCANCEL_", "SQUEUE_"), **kept, **more}


def require_commands() -> None:
    """Raise RequestError if this machine submits no jobs."""
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        raise RequestError(
            f"there is no {' and no '.join(missing)} here: target slurm runs where jobs are submitted, on a login node"
        )


def call(words: list[str], text: str = "", env: dict[str, str] | None = None, seconds: float | None = None) -> str:
    """Run a command and return what it printed; SlurmError with Slurm's own words if it fails."""
    seconds = seconds or SECONDS
    try:
        done = subprocess.run(
            words,
            input=text.encode("utf-8", "surrogateescape"),
            capture_output=True,
            timeout=seconds,
            check=False,
            env=env or environment(),
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{words[0]} gave no answer in {seconds:.0f} s: is slurmctld up? scontrol ping") from None
    except OSError as error:
        raise SlurmError(f"{words[0]} cannot be run: {error.strerror}") from None
    if done.returncode:
        raise SlurmError(said(done.stderr) or f"{words[0]} exited with {done.returncode} and printed nothing")
    return done.stdout.decode("utf-8", "replace")


def said(stderr: bytes) -> str:
    """Return what a command complained of, once, without the names of the command and of its level."""
    lines = [one_line(line, 300) for line in stderr.decode("utf-8", "replace").splitlines()]
    words = [re.sub(r"^\w+: (?:(?:error|fatal|allocation failure): )*", "", line) for line in lines if line]
    words = [
        re.sub(r"^Batch job submission failed: |^allocation failure: |^slurm_\w+ error: ", "", one) for one in words
    ]
    return "; ".join(dict.fromkeys(words))


def submitted(printed: str) -> str:
    """Read the id of a job that `sbatch --parsable` has submitted."""
    if not (found := _ID.fullmatch(printed.strip())):
        raise SlurmError(f"sbatch printed no job id: {one_line(printed, 200)}")
    return found[1]


def show(job: str) -> list[Component]:
    """Ask for a job, one component after the other; SlurmError if Slurm does not know it any more."""
    return [_component(line) for line in call(["scontrol", "--oneliner", "show", "job", job]).splitlines() if line]


def show_accounted(job: str) -> list[Component]:
    """Ask Slurm's accounting for a job that it has forgotten otherwise; nothing if it keeps none, or has none yet."""
    if shutil.which("sacct") is None:
        return []
    words = ["sacct", f"--jobs={job}", "--allocations", "--noheader", "--parsable2"]
    try:
        printed = call([*words, f"--format={','.join(_ACCOUNTED)}"])
    except SlurmError:  # it is disabled, or its daemon does not answer
        return []
    rows = [line.split("|") for line in printed.splitlines()]
    return [one for row in rows if len(row) == len(_ACCOUNTED) and (one := _accounted(*row)).has_ended]


def _accounted(number: str, state: str, code: str, nodes: str, limit: str) -> Component:
    word = state.partition(" ")[0]  # it can be "CANCELLED by 1000"
    names = "" if nodes == "None assigned" else one_line(nodes, 200)
    return Component(number, word, "", names, 0, _exit_code(code), one_line(limit, 40))


def _exit_code(text: str) -> int:
    """Read the exit code of `code:signal`; 0 for what is none."""
    code = text.partition(":")[0]
    return int(code) if code.isdecimal() and len(code) < _LONGEST_CODE else 0


def _component(line: str) -> Component:
    fields: dict[str, str] = {}
    for name, value in _FIELD.findall(line):
        fields.setdefault(name, value)
    nodes, reason = fields.get("NodeList", ""), fields.get("Reason", "")
    restarts = fields.get("Restarts", "0")
    return Component(
        number=fields.get("JobId", ""),
        state=fields.get("JobState", ""),
        reason="" if reason in ("None", "(null)") else one_line(reason, 200),
        nodes="" if nodes == "(null)" else nodes,
        restarts=int(restarts) if restarts.isdigit() else 0,
        exit_code=_exit_code(fields.get("ExitCode", "")),
        limit=one_line(fields.get("TimeLimit", ""), 40),
    )


def hostnames(nodes: str) -> list[str]:
    """Write out a list expression, for example `n[0-1]`; asks no daemon."""
    return call(["scontrol", "show", "hostnames", nodes]).split() if nodes else []


def comment(folder: Path) -> str:
    """Return the comment of the job of a run's folder: of a copy of the folder it is another one."""
    return f"kit-{hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]}"


def find(name: str) -> dict[str, str]:
    """Return the caller's own jobs of a name that are in the queue: the comment of each, by its id."""
    printed = call(["squeue", "--me", "--noheader", f"--name={name}", "--format=%A %k"])
    jobs = (line.strip().partition(" ") for line in printed.splitlines())
    return {number: text for number, _, text in jobs if number.isdigit()}
