"""The report of the README: docs/report/ of the runs in a results folder. `make page` writes it; read the diff."""

import html
import sys
import tempfile
from pathlib import Path

from runner.tools.pages.files import write_report

DOCS = Path(__file__).parents[1] / "docs" / "report"
PICTURES = {"quickstart-speed-up": "Speed-up", "quickstart-loss-seconds": "Loss over seconds"}
"""Plots of the page that the README shows, by how their names end, and their titles."""


def main() -> None:
    """Write the page and its pictures."""
    results = Path(sys.argv[1])
    DOCS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        write_report([results], DOCS / "report.html", experiment=None, plots=Path(folder))
        for name in PICTURES:
            (drawn,) = Path(folder).glob(f"*-{name}.svg")
            (DOCS / f"{name}.svg").write_bytes(drawn.read_bytes())
    page = (DOCS / "report.html").read_text("utf-8")
    print("in the README:")  # whose words have to be those of the page; a test compares them
    for name, title in PICTURES.items():
        section = page[page.index(f"<h2>{name.partition('-')[0]}</h2>") :]
        caption = section.partition(f"<h4>{title}</h4>")[2].partition("<figcaption>")[2].partition("</figcaption>")[0]
        print(f"![{html.unescape(caption)}](docs/report/{name}.svg)")


if __name__ == "__main__":
    main()
