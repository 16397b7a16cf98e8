"""The Slurm cluster that this machine submits to: whether its controller answers, and which nodes take jobs."""

import shutil
from typing import Any

from runner.core.text import listed
from runner.targets.slurm import commands
from runner.tools.doctor.finding import Finding, ok, warning, wrong

SECONDS = 10.0
_OUT = ("down", "drain", "drng", "fail", "failg", "maint", "unk")
"""Compact states of sinfo(1) in which a node takes no job; one that ends with `*` does not respond."""


def gather(partition: str) -> dict[str, Any]:
    """Ask for the nodes of each partition, or of one: `problem` says why there is no answer."""
    if missing := [name for name in ("sinfo", *commands.NEEDED) if shutil.which(name) is None]:
        return {"missing": missing}
    words = ["sinfo", "--noheader", "--format=%R|%t|%D", *([f"--partition={partition}"] if partition else [])]
    try:
        printed = commands.call(words, seconds=SECONDS)
    except commands.SlurmError as error:
        return {"problem": str(error)}
    return {"rows": [line.strip().split("|") for line in printed.splitlines()], "partition": partition}


def check(facts: dict[str, Any], where: str) -> list[Finding]:
    """Check what `gather` found."""
    if missing := facts.get("missing"):
        seen = f"there is no {' and no '.join(missing)} here"
        return [wrong("slurm", where, seen, "call it where jobs are submitted, on a login node")]
    if problem := facts.get("problem"):
        return [wrong("slurm", where, f"sinfo does not answer: {problem}", "scontrol ping; is slurmctld up?")]
    found, able = [ok("slurm", where, "the controller answers")], 0
    rows = [(name, state, int(count)) for name, state, count in facts["rows"] if count.isdigit() and int(count)]
    for partition in dict.fromkeys(name for name, _, _ in rows):
        states = [(state, count) for name, state, count in rows if name == partition]
        good = sum(count for state, count in states if state not in _OUT and not state.endswith("*"))
        lost, seen = sum(count for _, count in states) - good, listed([f"{count} {state}" for state, count in states])
        able += good
        mend = f"{lost} of them take{'s' * (lost == 1)} no jobs: sinfo --list-reasons"
        found.append(
            warning("nodes", partition, f"nodes: {seen}", mend) if lost else ok("nodes", partition, f"nodes: {seen}")
        )
    if not able:
        which = f"partition {facts['partition']}" if facts["partition"] else "any partition"
        found.append(wrong("nodes", where, f"no node of {which} takes jobs", "sinfo --list-reasons; sinfo --summarize"))
    return found
