"""argparse's subcommands: what belongs to which parser decides where it stands on the command line."""

from __future__ import annotations

import ast
import bisect
from typing import NamedTuple

from runner.definitions.options.literals import keywords, literal, texts
from runner.definitions.options.option import Option
from runner.definitions.options.sources import Code, Source, last

_MAKES, _STARTS = "add_parser", "add_subparsers"
_GROUPS = ("add_argument_group", "add_mutually_exclusive_group", "add_argument")
_LONGEST_CHAIN = 20


class Commands(NamedTuple):
    """The subcommands of a program: the argument that names them, their names, and where parsers are made.

    `made` holds for each file and name the lines in which something is assigned to the name, with what.
    """

    key: str
    names: tuple[str, ...]
    made: dict[tuple[int, str], list[tuple[int, ast.Call]]]

    def place(self, source: Source, call: ast.Call, option: Option) -> Option:
        """Say of an option that a call declares whether it stands before or behind a subcommand, and which take it."""
        parser = self._parser(source, call)
        if parser is None:
            return option._replace(depth=2)
        if last(parser.func) != _MAKES:
            return option._replace(depth=0)
        return option._replace(depth=2, commands=tuple(texts(parser.args)[:1]))

    def _parser(self, source: Source, call: ast.Call) -> ast.Call | None:
        """Find the call that makes the parser which another call declares something of; None if it is not seen."""
        for _ in range(_LONGEST_CHAIN):
            if not isinstance(call.func, ast.Attribute):
                return None
            owner = call.func.value
            made = owner if isinstance(owner, ast.Call) else self._before(source, last(owner), call.lineno)
            if made is None:
                return None  # the parameter of a function that adds what several subcommands share
            if last(made.func) not in _GROUPS:
                return made
            call = made
        return None

    def _before(self, source: Source, name: str, line: int) -> ast.Call | None:
        """Find what was assigned to a name last before a line."""
        made = self.made.get((id(source.tree), name), [])
        index = bisect.bisect_right(made, line, key=lambda one: one[0])
        return made[index - 1][1] if index else None


def read_commands(code: Code) -> Commands | None:
    """Find the subcommands; None for a program without any."""
    names: list[str] = []
    key = ""
    for _, call in code.every_call():
        if last(call.func) == _STARTS:
            key = key or str(literal(keywords(call).get("dest")) or "command")
        elif last(call.func) == _MAKES:
            names += texts(call.args)[:1]
    if not key or not key.isidentifier():
        return None
    return Commands(key, tuple(dict.fromkeys(names)), _made(code))


def _made(code: Code) -> dict[tuple[int, str], list[tuple[int, ast.Call]]]:
    made: dict[tuple[int, str], list[tuple[int, ast.Call]]] = {}
    for source in code.sources:
        if not source.part.names & {_MAKES, _STARTS}:
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                for target in node.targets:
                    made.setdefault((id(source.tree), last(target)), []).append((node.lineno, node.value))
    for found in made.values():
        found.sort(key=lambda one: one[0])
    return made
