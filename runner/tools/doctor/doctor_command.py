"""The command `runner doctor`."""

from pathlib import Path
from typing import Annotated

import typer

from runner.cli.options import Device, On, Results, With, device_of, options_of, project_root_or_here, show_rows
from runner.cli.printing import say, show_document
from runner.core.errors import Interrupted
from runner.targets.torchrun import MASTER_PORT
from runner.tools.doctor.findings import Finding


def doctor(
    on: On = "local",
    with_: With = None,
    peers: Annotated[
        str, typer.Option(metavar="HOST,HOST", help="Other hosts of a run; write host:port if a port is not --port.")
    ] = "",
    device: Device = "auto",
    results: Results = Path("results"),
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port that node 0 listens on.")] = MASTER_PORT,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Diagnose this machine, cluster or host before a run.

    Checks versions, the container engine, GPUs, memory, disks, the network and the cluster. Each line is ok, a
    warning or wrong, with its remedy. Exit code 1 if anything is wrong. Changes nothing, and opens no port.
    """
    from runner.core.yaml_writer import to_json
    from runner.definitions.settings import settings_of
    from runner.execution import signals
    from runner.targets import load
    from runner.tools.doctor.examine import Request, examine, report
    from runner.tools.doctor.findings import WRONG
    from runner.tools.doctor.peers import parse

    device_of(device)
    options = load(on, options_of(on, with_)).options
    image = settings_of(project_root_or_here()).image
    request = Request(on, options, device, results, parse(peers, port) if peers else [], port, image)
    with signals.taken() as interrupts:
        try:
            with interrupts.raising():
                findings = examine(request)
        except KeyboardInterrupt:
            raise Interrupted from None
    if as_json:
        show_document(to_json(report(request, findings)))
    else:
        _show(findings)
    raise typer.Exit(1 if any(finding.state == WRONG for finding in findings) else 0)


def _show(findings: list[Finding]) -> None:
    import sys

    from runner.tools.doctor.examine import count_states

    rows = [(finding.state, finding.check, finding.where, finding.seen, finding.mend) for finding in findings]
    if sys.stdout.isatty():
        from runner.cli.terminal import print_findings

        print_findings(rows)
    else:
        show_rows([*rows])
    counts = count_states(findings)
    many = f"{counts['warning']} warning{'s' * (counts['warning'] != 1)}"
    say(f"{len(findings)} checks: {counts['ok']} ok, {many}, {counts['wrong']} wrong")
