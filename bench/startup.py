"""Measure `runner --help` relative to `import typer`."""

from bench.timing import IMPORT_TYPER, abba, in_typers, median, tool

PAIRS = 15
GOAL = 1.3


def main() -> None:
    """Print the medians and their ratio."""
    pairs = abba(IMPORT_TYPER, [tool("runner"), "--help"], PAIRS)
    typer, ours = median(theirs for theirs, _ in pairs), median(ours for _, ours in pairs)
    print(
        f"startup: runner --help takes {in_typers(ours, typer)} times import typer (goal: at most {GOAL}), "
        f"medians of {PAIRS} ABBA pairs"
    )
