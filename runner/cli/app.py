"""The commands, one file each, and how they are called."""

from __future__ import annotations

import io
import sys
from typing import Annotated, NoReturn

import typer

from runner import __version__
from runner.cli import image
from runner.cli.collect import collect
from runner.cli.compare import compare
from runner.cli.exit import ended_by_signals, leave
from runner.cli.exit import explain as explain_error
from runner.cli.explain import explain
from runner.cli.lines import show, show_document
from runner.cli.list import list_
from runner.cli.node import node
from runner.cli.plan import plan
from runner.cli.prepare import PASS_ON, prepare
from runner.cli.recover import recover
from runner.cli.render import render
from runner.cli.resume import resume
from runner.cli.run import run
from runner.cli.schema import schema
from runner.cli.summarize import summarize
from runner.cli.targets import targets
from runner.tools.audit.audit_command import audit
from runner.tools.doctor.doctor_command import doctor
from runner.tools.init.init_command import init
from runner.tools.pages import export_command
from runner.tools.pages.report_command import report
from runner.tools.predict.predict_command import predict
from runner.tools.proof.bundle_command import bundle
from runner.tools.proof.reproduce_command import reproduce
from runner.tools.proof.verify_command import verify

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run experiments in distributed training, and make tables of them that one can believe.",
)
app.command()(init)
app.command("list")(list_)
app.command()(plan)
app.command()(run)
app.command()(summarize)
app.command()(report)
app.command()(explain)
app.command()(predict)
app.command()(compare)
app.command()(audit)
app.command()(verify)
app.command()(bundle)
app.command()(reproduce)
app.command(context_settings=PASS_ON)(prepare)
app.command()(collect)
app.command()(recover)
app.command()(resume)
app.command()(targets)
app.command()(node)
app.command()(doctor)
app.command()(schema)
app.command()(render)
app.add_typer(image.app, name="image")
app.add_typer(export_command.app, name="export")


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    if version:
        show(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        show_document(context.get_help() + "\n")
        raise typer.Exit


def run_command() -> NoReturn:
    """Run the command, and turn whatever it raises into a line and an exit code."""
    for stream in (sys.stdout, sys.stderr):  # a terminal that lacks a letter shows its number, and nothing breaks
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with ended_by_signals():
            code = app(standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the one place where everything ends
        code = explain_error(error)
    except SystemExit:  # click's way to end when the reader of a pipe has gone, for example `| head`
        code = 0
    leave(code if isinstance(code, int) else 0)
