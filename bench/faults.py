"""The table of docs/failures.md, from what the tests report of their tries. `make faults` writes it; read the diff.

python -m bench.faults FILE takes the lines of KIT_FAULTS_FILE. Rows of faults that were not tried keep their figures.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).parents[1] / "docs" / "failures.md"
BEGIN, END = "<!-- table of faults -->\n", "<!-- end of the table -->\n"
_HEAD = "| fault | target | tried | lost | told within |\n|---|---|---:|---:|---:|\n"
_TARGETS = ("local", "compose", "kubernetes", "pytorchjob", "indexed", "ssh", "slurm")


def read_rows(document: str) -> dict[tuple[str, str], str]:
    """Return the rows of a document's table, by fault and target."""
    table = document.partition(BEGIN)[2].partition(END)[0]
    rows = {}
    for line in table.splitlines()[2:]:
        fault, target = (cell.strip() for cell in line.strip("|").split("|")[:2])
        rows[fault, target] = line
    return rows


def make_rows(tries: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """Make the rows of tried faults: how often, what was lost in all of them, the longest time until it was told."""
    of_faults = defaultdict(list)
    for attempt in tries:
        of_faults[attempt["fault"], attempt["target"]].append(attempt)
    rows = {}
    for (fault, target), found in of_faults.items():
        failed = sum(not attempt["passed"] for attempt in found)
        lost = [attempt["lost"] for attempt in found if attempt["lost"] is not None]
        told = [attempt["told_seconds"] for attempt in found if attempt["told_seconds"] is not None]
        cells = [
            fault,
            target,
            f"{len(found)}{f', {failed} failed' if failed else ''}",
            (f"{sum(lost):,} lines" if sum(lost) else "nothing") if lost else "",
            f"{max(told):.1f} s" if told else "",
        ]
        rows[fault, target] = f"| {' | '.join(cells)} |"
    return rows


def write(document: str, rows: dict[tuple[str, str], str]) -> str:
    """Put rows into a document's table, sorted by fault and target."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    order = sorted(rows, key=lambda row: (row[0], _TARGETS.index(row[1])))
    table = "".join(f"{rows[row]}\n" for row in order)
    return f"{before}{BEGIN}{_HEAD}{table}{END}{after}"


def main() -> None:
    """Write the table."""
    tries = [json.loads(line) for line in Path(sys.argv[1]).read_text("utf-8").splitlines()]
    document = DOCUMENT.read_text("utf-8")
    rows = make_rows(tries)
    DOCUMENT.write_text(write(document, {**read_rows(document), **rows}), "utf-8")
    print("\n".join(rows[row] for row in sorted(rows)))


if __name__ == "__main__":
    main()
