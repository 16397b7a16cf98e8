"""Write the README's tables and pictures and docs/report/ from archives of records; used by `make page`."""

import html
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from runner.tools.pages.files import write_report

README = Path(__file__).parents[1] / "README.md"
DOCS = README.parent / "docs" / "report"
PICTURES = {"quickstart-speed-up": "Speed-up", "quickstart-loss-seconds": "Loss over seconds"}
"""Plots in the README, by the ends of their names, and their titles."""


def main() -> None:
    """Write the report and pictures of the first archive, and the README's table of each; tests compare them."""
    archive = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        write_report([Path(archive)], DOCS / "report.html", experiment=None, plots=Path(folder))
        for name in PICTURES:
            (drawn,) = Path(folder).glob(f"*-{name}.svg")
            (DOCS / f"{name}.svg").write_bytes(drawn.read_bytes())
    page = (DOCS / "report.html").read_text("utf-8")
    text = README.read_text("utf-8")
    for shown in sys.argv[1:]:
        words = [sys.executable, "-m", "runner", "summarize", shown, "--format", "table"]
        stdout = subprocess.check_output(words, env={**os.environ, "COLUMNS": "100"}, text=True)
        table = "\n".join(map(str.rstrip, stdout.strip().splitlines()))
        before, _, rest = text.partition(f"```\n{Path(shown).stem}\n")
        text = f"{before}```\n{table}\n{rest[rest.index('```') :]}"
    for name, title in PICTURES.items():
        section = page[page.index(f"<h2>{name.partition('-')[0]}</h2>") :]
        caption = section.partition(f"<h4>{title}</h4>")[2].partition("<figcaption>")[2].partition("</figcaption>")[0]
        picture = f"![{html.unescape(caption)}](docs/report/{name}.svg)"
        text = re.sub(rf"!\[.*\]\(docs/report/{name}\.svg\)", picture.replace("\\", r"\\"), text)
    README.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
