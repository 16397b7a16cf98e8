"""The table of commands: what it says of them, and a kit that lacks what it names."""

from typing import Any

import typer
from typer.main import get_command

from runner.cli.app import app
from runner.cli.commands import FURTHER, MAIN
from tests.support.projects import ROOT


def test_the_table_says_of_each_command_what_its_own_help_says() -> None:
    group: Any = get_command(app)
    for name, (_, summary) in (MAIN | FURTHER).items():
        _, command, _ = group.resolve_command(typer.Context(group), [name])
        assert command.get_short_help_str(80) == group.commands[name].get_short_help_str(80) == summary


def test_every_command_of_a_tool_is_in_the_table() -> None:
    files = (ROOT / "runner" / "tools").glob("*/*_command.py")
    named = {entry for entry, _ in (MAIN | FURTHER).values()}
    assert {f"tools.{file.parent.name}.{file.stem}" for file in files} == {
        name for name in named if name.startswith("tools")
    }
