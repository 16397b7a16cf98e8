"""Checks of the Slurm cluster: its controller, and the nodes that accept jobs."""

import re
import shutil

from runner.core.text import listed
from runner.targets.slurm import commands
from runner.tools.doctor.findings import Finding, ok, warning, wrong

SECONDS = 10.0
_OUT = ("down", "drain", "drng", "fail", "failg", "maint", "unk")
"""Compact states of sinfo(1) in which a node accepts no jobs; a final `*` means that the node does not respond."""


def check_slurm(partition: str, where: str) -> list[Finding]:
    """Check the nodes of a partition, or of all partitions if `partition` is empty."""
    if missing := [name for name in ("sinfo", *commands.NEEDED) if shutil.which(name) is None]:
        seen = f"there is no {' and no '.join(missing)} here"
        return [wrong("slurm", where, seen, "run doctor on a login node, where jobs are submitted")]
    words = ["sinfo", "--noheader", "--format=%R|%t|%D", *([f"--partition={partition}"] if partition else [])]
    try:
        printed = commands.call(words, seconds=SECONDS)
    except commands.SlurmError as error:
        return [wrong("slurm", where, f"sinfo does not answer: {error}", "scontrol ping; is slurmctld up?")]
    partitions: dict[str, list[tuple[str, int]]] = {}
    for name, state, count in re.findall(r"(?m)^(.+)\|(\S+)\|(\d+)\s*$", printed):
        if int(count):
            partitions.setdefault(name, []).append((state, int(count)))
    findings, able = [ok("slurm", where, "the controller answers")], 0
    for name, states in partitions.items():
        lost = sum(count for state, count in states if state in _OUT or state.endswith("*"))
        able += sum(count for _, count in states) - lost
        seen = f"nodes: {listed(f'{count} {state}' for state, count in states)}"
        mend = f"{lost} of them take{'s' * (lost == 1)} no jobs: sinfo --list-reasons"
        findings.append(warning("nodes", name, seen, mend) if lost else ok("nodes", name, seen))
    if not able:
        which = f"partition {partition}" if partition else "any partition"
        mend = "sinfo --list-reasons; sinfo --summarize"
        findings.append(wrong("nodes", where, f"no node of {which} takes jobs", mend))
    return findings
