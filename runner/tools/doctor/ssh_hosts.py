"""The hosts of target ssh: all that its preflight finds, instead of the first."""

from __future__ import annotations

from typing import Any

from runner.core.errors import RequestError
from runner.targets.ssh.verdicts import Verdict
from runner.tools.doctor.finding import Finding, wrong

SECONDS = 60.0
"""A host that does not answer takes 18 s, one whose shared connection does not 11 s more; the ways between follow."""
_LOOK = "ssh {host} true shows whether ssh itself reaches it"


def gather(options: Any, device: str) -> list[Verdict] | str:
    """Look at all hosts at the same time; a line that says why that is impossible, if it is."""
    from runner.targets.ssh.target import Ssh  # noqa: PLC0415 - imported on use

    try:
        return Ssh(options).examine(device)
    except RequestError as error:
        return str(error)


def check(found: list[Verdict] | str, where: str) -> list[Finding]:
    """Report the verdicts of the target as findings."""
    if isinstance(found, str):
        return [wrong("ssh", where, found, "runner targets ssh lists the options")]
    return [
        Finding(
            one.check,
            one.state,
            one.host,
            one.seen,
            one.mend or ("" if one.state == "ok" else _LOOK.format(host=one.host)),
        )
        for one in found
    ]
