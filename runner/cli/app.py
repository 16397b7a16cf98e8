"""Show the commands of `command_table` in the help, and call them."""

import io
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from runner import __version__
from runner.cli.command_table import FURTHER, MAIN, load
from runner.cli.exit import ended_by_signals, explain, leave
from runner.cli.printing import show, show_document
from runner.core.secrets import refuse


class _Commands(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        table = MAIN | FURTHER
        self.commands = {name: TyperCommand(name, help=summary) for name, (_, summary) in table.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, words = super().resolve_command(ctx, args)
        if name and command:
            function, settings = load(name)
            alone = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
            alone.command(name, context_settings=settings)(function)
            command = get_group(alone).commands[name]
        return name, command, words

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        for title, table in (("Commands", MAIN), ("Further commands", FURTHER)):
            with formatter.section(title):
                formatter.write_dl([(name, summary) for name, (_, summary) in table.items()])


app = typer.Typer(
    cls=_Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Reproducible distributed-training experiments, with results you can defend.",
)


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    if version:
        show(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        from runner.cli.next_step import next_step

        show_document(f"{context.get_help()}\nNext: {next_step(Path.cwd())}\n")
        raise typer.Exit


def run_command() -> NoReturn:
    """Run the command and exit. An exception becomes a one-line message and an exit code."""
    if sys.stdout is None:  # the caller closed it
        sys.stdout = io.TextIOWrapper(io.FileIO(os.devnull, "w"))
    for stream in (sys.stdout, sys.stderr):  # characters that a terminal lacks become escapes
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        refuse(sys.argv[1:])
        with ended_by_signals():
            code = app(standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - every exception ends here
        code = explain(error)
    except SystemExit:  # from click, when the reader of a pipe has gone, as in `| head`
        code = 0
    leave(code if isinstance(code, int) else 0)
