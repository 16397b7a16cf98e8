"""`runner audit`."""

import json
import re
import sys
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from runner.cli.lines import show, show_document
from runner.core.errors import RequestError
from runner.tools.audit.findings import GRADES, MEASURED, Audit, Finding, Unchecked

EXIT_WRONG = 1
_MOST_REASONS = 5


def audit(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Markdown, CSV, HTML, a definition, or -.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print every checked number as JSON.")] = False,
    format_: Annotated[
        str, typer.Option("--format", metavar="markdown|csv|html|yaml", help="Instead of what the name says.")
    ] = "",
    every: Annotated[
        bool, typer.Option("--all", help="Print consistent numbers too; with --json, those not checked.")
    ] = False,
) -> None:
    """Recompute the tables of others.

    Speed-ups, efficiencies, throughputs and accuracies that follow from other printed numbers, each within its
    rounding. Exit code 1 if a number is inconsistent.
    """
    from runner.tools.audit.document import audit_file
    from runner.tools.audit.formats import FORMATS

    if format_ and format_ not in FORMATS:
        raise RequestError(f"--format {format_}: there is {', '.join(FORMATS)}")
    audits = [audit_file(path, sys.stdin.buffer, format_) for path in files]
    if as_json:
        show_json(audits, every=every)
    else:
        for audited in audits:
            for finding in audited.findings:
                if every or finding.grade != "consistent" or finding.note:
                    show(line_of(finding))
            show_summary(audited)
    if any(finding.wrong for audited in audits for finding in audited.findings):
        raise typer.Exit(EXIT_WRONG)


def show_json(audits: list[Audit], *, every: bool) -> None:
    """Print a list of objects, each on a line; all in ASCII, so that nothing is cut or escaped."""
    found: list[Finding | Unchecked] = [finding for audit in audits for finding in audit.findings]
    found += [number for audit in audits for number in audit.unchecked] if every else []
    rows = []
    for number in found:
        values = {field.name: getattr(number, field.name, None) for field in fields(Finding)}
        if isinstance(number, Unchecked):
            values |= {"grade": "not checked", "note": number.reason}
        rows.append(json.dumps(values))
    show_document("[\n  " + ",\n  ".join(rows) + "\n]\n" if rows else "[]\n")


def line_of(finding: Finding) -> str:
    """Say what is printed and what follows, in one line."""
    printed = f"{finding.printed:.12g}"
    found = re.search(rf"(?<![\d.]){re.escape(printed)}(\.?0*)(?![\d.]*\d)\s*(%?)", finding.text)
    zeros, percent = found.groups() if found else ("", "%" if finding.row and "%" in finding.text else "")
    printed += zeros
    decimals = len(printed.partition(".")[2])
    near = f"{finding.computed:.{decimals + 2 if finding.grade == 'truncated' else max(decimals, 2)}f}"
    begin = f"{finding.file}:{finding.line}: {finding.column}: printed {printed}{percent}, "
    follows = f"follows {near}{percent} from {finding.formula}: {finding.grade}"
    return begin + follows + (f"; {finding.note}" if finding.note else "")


def show_summary(audited: Audit) -> None:
    """Print how many numbers were checked and why the others were not."""
    found = Counter(finding.grade for finding in audited.findings)
    counts = ", ".join(f"{found[grade]} {grade}" for grade in GRADES if found[grade])
    tables = f"{audited.tables} table{'' if audited.tables == 1 else 's'}"
    checked = f"{len(audited.findings)} numbers checked{': ' if counts else ''}{counts}"
    show(f"{audited.file}: {tables}, {checked}; {len(audited.unchecked)} not")
    if not audited.tables and not audited.findings:
        show("  no table that is read: Markdown, HTML, CSV, or text in a block of code")
    derived = [number for number in audited.unchecked if number.reason != MEASURED]
    reasons = Counter((number.column, number.reason) for number in derived)
    first = {(number.column, number.reason): number for number in reversed(derived)}
    for place in list(reasons)[:_MOST_REASONS]:
        more = f" ({reasons[place]} numbers)" if reasons[place] > 1 else ""
        show(f"  not checked: {first[place]}{more}")
    if len(reasons) > _MOST_REASONS:
        show(f"  and {len(reasons) - _MOST_REASONS} more")
    if measured := len(audited.unchecked) - len(derived):
        show(f"  not checked: {measured} number{'' if measured == 1 else 's'}, {MEASURED}")
