"""Show progress and tables on a terminal. Only this module imports rich. No text is read as rich's markup."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table as RichTable
from rich.text import Text

from runner.cli.printing import line
from runner.cli.progress import Progress
from runner.core import clock
from runner.core.text import escaped, one_line
from runner.definitions.plan import Run
from runner.records.cause import hints
from runner.records.events import Event
from runner.records.observed import SAMPLE_SECONDS
from runner.records.schema import Failure, Record
from runner.report.columns import decimals
from runner.report.table import Grid, Table, fit

_PLAIN_SECONDS = 10.0
_LONGEST = 500
_WARNING = "magenta"
"""The colour of warnings. Yellow would be illegible on a light background."""
_TITLE = "  {:<7} {}"


class _Console(Console):
    """A console that stops printing when its reader has gone, as in `2>&1 | head`. Rich's own console would exit."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


class Screen:
    """Live progress on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        self._console = _Console(file=sys.stderr, highlight=False, markup=False, soft_wrap=True)
        self._progress: Progress | None = None
        self._earlier_seconds: list[float] = []
        self._said = 0.0
        self._live = Live(console=self._console, refresh_per_second=4, transient=True, get_renderable=self._render)

    def __enter__(self) -> "Screen":  # noqa: PYI034 - Self is Python 3.11's
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._live.stop()

    def note(self, text: str, style: str = "") -> None:
        """Print one line."""
        self._print(Text(line(text), style))

    def begin(self, number: int, total: int, run: Run, folder: Path) -> None:
        """Start the progress of a run."""
        self._progress = Progress(number, total, run, self._earlier_seconds)
        self._said = clock.monotonic()
        if not self._console.is_terminal:
            self.note(f"run {number}/{total}  {run.name}  repeat {run.repeat}  {folder}")

    def event(self, event: Event) -> None:
        """Update the progress from an event of the run."""
        if self._progress and self._progress.take(event):
            self._show(self._progress)

    def printed(self, line: bytes) -> None:
        """Update the progress from a line of the run that is not an event."""
        if self._progress and self._progress.take_printed(line):
            self._show(self._progress)

    def _show(self, progress: Progress) -> None:
        if not self._console.is_terminal and clock.monotonic() - self._said >= _PLAIN_SECONDS:
            self._said = clock.monotonic()
            self.note(f"  {progress.line()}")

    def stopping(self, why: str) -> None:
        """Announce that a run is being ended, which may take some seconds."""
        self.note(f"{why.replace('_', ' ')}: ending the processes and collecting their output ...", _WARNING)

    def end(self, run: Run, record: Record, folder: Path) -> None:
        """Print how a run ended. If the run failed, also print which rank failed first, why, and what to do."""
        name = f"{run.name}  repeat {run.repeat}"
        if self._progress:
            self._earlier_seconds.append(self._progress.elapsed)
            self._progress = None
        if record.status == "completed":
            self.note(f"✓ {name}  {_result(record)}", "green")
            for doubt in record.doubts:
                self.note(f"  doubtful: {doubt}", _WARNING)
            return
        self.note(f"✗ {name}  {record.status.replace('_', ' ')}: {record.reason}", "red")
        for shown in _failure_card(record):
            self._print(Text(shown))
        self.note(f"  all its output is in {folder / 'raw'}")

    def left_out(self, run: Run) -> None:
        """Print that a repeat is not run, since its cell has failed."""
        self.note(f"- {run.name}  repeat {run.repeat}  not run: this cell has failed", _WARNING)

    def _render(self) -> RenderableType:
        if self._progress is None:
            return Text("")
        bar = ProgressBar(total=1.0, completed=self._progress.done, width=20)
        grid = RichTable.grid(padding=(0, 2))
        grid.add_row(Text(line(self._progress.name), "bold"), bar, Text(line(self._progress.line())))
        return grid

    def _print(self, text: Text) -> None:
        with suppress(OSError):  # if stderr is a file on a full disk, the run goes on
            self._console.print(text)


def _failure_card(record: Record) -> Iterator[str]:
    """Yield the lines about a failure: the rank that failed first, the cause, a hint, and the last output.

    A run that was ended from outside gives no lines, since its output would say only that the launcher was stopped.
    """
    failure = record.failure
    stuck = record.outcome.stuck if record.outcome else None
    if failure is None or not (record.status in ("failed", "killed") or (stuck and record.status == "timed_out")):
        return
    hint = hints().get(failure.hint or "")
    who = next((rank for rank in (stuck.ranks if stuck else ()) if rank.rank == failure.rank), None)
    shown = {
        "first": "" if stuck and failure.rank is None else _who(record, failure),
        "cause": failure.cause or "",
        "event": f"the last was {who.event}, {who.quiet_seconds or 0:.0f} s before" if who and who.event else "",
        "hint": f"{hint.name}: {hint.means}" if hint else "",
        "": hint.do if hint else "",
    }
    yield from (_TITLE.format(name, one_line(words, _LONGEST)) for name, words in shown.items() if words)
    if failure.last_lines:
        lines = f"last    {len(failure.last_lines)} lines:"
        yield f"  {'stack   the innermost line first:' if stuck else lines}"
    yield from (f"    {escaped(printed, _LONGEST)}" for printed in failure.last_lines)


def _who(record: Record, failure: Failure) -> str:
    facts = next((rank.facts for rank in record.ranks if rank.rank == failure.rank), {})
    exits = record.outcome.exits if record.outcome else []
    place = next((end.place for end in exits if end.node == failure.node), {})
    names = [one_line(word, 100) for word in (place.get("pod"), place.get("machine") or facts.get("host")) if word]
    who = f"rank {failure.rank} on node {failure.node}" if failure.rank is not None else f"node {failure.node}"
    return f"{who} ({', '.join(names)})" if names else who


def _console() -> Console:
    return Console(highlight=False, markup=False)


def _columns(rows: Iterable[tuple[Text | str, ...]], padding: int = 2) -> RichTable:
    grid = RichTable.grid(padding=(0, padding, 0, 0))
    for row in rows:
        grid.add_row(*row)
    return grid


def print_table(table: Table) -> None:
    """Print a table, fitted to the width of the terminal."""
    console = _console()
    console.print(Text(line(table.title), "bold"))
    for common in table.common:
        console.print(Text(line(common), "dim"))
    _print_grid(console, table)
    if table.published.lines:
        console.print(Text(line(table.published.title), "dim"))
        _print_grid(console, table.published, "dim")
    if table.notes:
        console.print(_columns(((Text("·"), Text(line(note), overflow="fold")) for note in table.notes), 1))
    console.print()


def _print_grid(console: Console, grid: Grid, style: str = "") -> None:
    fitted = fit(grid, console.width, cell_len)
    drawn = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, fitted.gap - 2))
    for head in fitted.head:
        drawn.add_column(Text("\n".join(map(one_line, head))), overflow="fold")
    for cells in fitted.lines:
        row = "green" if cells[-1] == "yes" else style
        drawn.add_row(*(Text(one_line(cell), row) for cell in cells))
    below = list(fitted.footnotes)
    if fitted.left_out:
        below.append(f"a wider terminal, or --format markdown, also shows: {', '.join(fitted.left_out)}")
    console.print()
    if fitted.equal:
        console.print(Text(line(f"in every row: {', '.join(fitted.equal)}"), style))
    console.print(drawn)
    for note in below:
        console.print(Text(line(note), style))
    console.print()


def print_columns(rows: list[tuple[str, ...]]) -> None:
    """Print rows of words in columns."""
    _console().print(_columns(tuple(Text(one_line(word)) for word in row) for row in rows))


_MARKS = {"ok": ("✓", "green"), "warning": ("!", _WARNING), "wrong": ("✗", "red")}


def print_findings(findings: list[tuple[str, str, str, str, str]]) -> None:
    """Print findings of `doctor`, each (state, check, where, seen, mend), grouped by `where`."""
    console = _console()
    for place in dict.fromkeys(where for _, _, where, _, _ in findings):
        console.print(Text(line(place), "bold"))
        rows: list[tuple[Text | str, ...]] = []
        for state, check, where, seen, mend in findings:
            if where == place:
                mark, style = _MARKS[state]
                check_text = Text(line(check), no_wrap=True)
                rows.append((Text(f"  {mark}", style), check_text, Text(line(seen), "" if mend else "dim")))
                rows += [("", "", Text(f"→ {line(mend)}", style))] if mend else []
        console.print(_columns(rows))


def _result(record: Record) -> str:
    figures, measure = record.metrics, record.launch.measure
    by_sample = measure == SAMPLE_SECONDS
    words = []
    if by_sample and (seconds := figures.get(measure)):
        words.append(f"{1 / seconds:,.{decimals(1 / seconds)}f} samples/s")
    elif (name := "wall_seconds" if by_sample else measure) in figures:
        words.append(f"{name} {figures[name]:.{decimals(figures[name])}f}")
    if (accuracy := figures.get("final_accuracy")) is not None:
        words.append(f"accuracy {accuracy:.2%}")
    if (rate := figures.get("samples_per_second")) is not None:
        words.append(f"{'self-reported ' * by_sample}{rate:,.0f} samples/s")
    return "  ".join(words)
