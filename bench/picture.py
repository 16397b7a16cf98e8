"""Draw the picture of the README: what `runner summarize` prints on a terminal.

By hand:  python -m bench.picture results/ quickstart
"""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 100
DOCS = Path(__file__).parents[1] / "docs"


def on_a_terminal(command: list[str]) -> str:
    """Run a command on a terminal of its own and return what it printed, colours included."""
    ours, its = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    process = subprocess.Popen(command, stdin=its, stdout=its, env=environment)
    os.close(its)
    printed = b""
    try:
        while block := os.read(ours, 65536):
            printed += block
    except OSError:  # the terminal's other end was closed: the command has ended
        pass
    os.close(ours)
    if process.wait():
        sys.exit(printed.decode())
    return printed.decode().replace("\r\n", "\n")


def main() -> None:
    """Draw the table of one experiment, and print it as text."""
    results, experiment = sys.argv[1:]
    table = on_a_terminal([sys.executable, "-m", "runner", "summarize", results, "--experiment", experiment])
    text = Text.from_ansi(table.rstrip())
    coloured, text.spans = text.spans, []
    text.highlight_regex(r"\S+(?: \S+)*", "default")  # each cell becomes an element with a place of its own
    text.spans += coloured
    with Path(os.devnull).open("w") as nothing:
        console = Console(record=True, width=COLUMNS, file=nothing)
        console.print(text)
        drawn = console.export_svg(title=f"runner summarize results/ --experiment {experiment}", unique_id="table")
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)  # a picture loads no font from a network
    (DOCS / f"{experiment}.svg").write_text(drawn, "utf-8")
    print("\n".join(line.rstrip() for line in text.plain.splitlines()))


if __name__ == "__main__":
    main()
