"""The table of commands: what it says of them, and a kit that lacks what it names."""

import shutil
import sys
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from runner.cli.app import app
from runner.cli.commands import FURTHER, MAIN
from tests.support.projects import ROOT, Ended, Project, complete


def test_the_table_says_of_each_command_what_its_own_help_says() -> None:
    group: Any = get_command(app)
    for name, (_, summary) in (MAIN | FURTHER).items():
        _, command, _ = group.resolve_command(typer.Context(group), [name])
        assert command.get_short_help_str(80) == group.commands[name].get_short_help_str(80) == summary


def test_every_command_of_a_tool_is_in_the_table() -> None:
    files = (ROOT / "runner" / "tools").glob("*/*_command.py")
    named = {entry.partition(":")[0] for entry, _ in (MAIN | FURTHER).values()}
    assert {f"tools.{file.parent.name}.{file.stem}" for file in files} == {
        name for name in named if name.startswith("tools")
    }


def test_a_kit_without_tools_lacks_their_commands_and_nothing_else(finished: Project, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "runner", tmp_path / "runner", ignore=shutil.ignore_patterns("tools", "__pycache__"))

    def runner(*words: str) -> Ended:
        env = finished.environment({"PYTHONPATH": f"{tmp_path}:{ROOT}"})
        return complete([sys.executable, "-m", "runner", *words], finished.root, env)

    shown = runner("--help").stdout
    assert "summarize" in shown
    assert "verify" not in shown
    assert "No such command 'verify'" in runner("verify").stderr
    assert runner("summarize").stdout == finished.runner("summarize").stdout
