"""The report of the README: docs/report/ of the runs in a results folder. `make page` writes it; read the diff."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from runner.report.page.files import write_report

DOCS = Path(__file__).parents[1] / "docs" / "report"
PICTURES = ("quickstart-speed-up", "quickstart-loss-seconds")
"""Plots of the page that the README shows, by how their names end."""


def main() -> None:
    """Write the page and its pictures."""
    results = Path(sys.argv[1])
    DOCS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        write_report([results], DOCS / "report.html", experiment=None, plots=Path(folder))
        for name in PICTURES:
            (drawn,) = Path(folder).glob(f"*-{name}.svg")
            (DOCS / f"{name}.svg").write_bytes(drawn.read_bytes())


if __name__ == "__main__":
    main()
