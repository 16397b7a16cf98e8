"""A whole document: its tables and its text."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from runner.tools.audit.check import check_tables
from runner.tools.audit.findings import Audit
from runner.tools.audit.prose import check_prose
from runner.tools.audit.reading import read_page
from runner.tools.audit.tables import Page


def audit_file(path: Path, stdin: BinaryIO | None = None, format_: str = "") -> Audit:
    """Read and check a file; RequestError if it cannot be read."""
    return audit_page(read_page(path, stdin, format_))


def audit_page(page: Page) -> Audit:
    """Check a page that has been read."""
    audit, text = check_tables(page), check_prose(page)
    audit.findings = sorted([*audit.findings, *text.findings], key=lambda one: one.line)
    audit.unchecked += text.unchecked
    return audit
