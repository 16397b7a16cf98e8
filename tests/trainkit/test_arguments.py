"""The arguments of programs: declared once, refused in one line, and read from the source as argparse has them."""

import argparse
import importlib
from pathlib import Path
from typing import Any

import pytest

from runner.definitions import args, program
from trainkit.arguments import Parser, at_least, program_parser

ROOT = Path(__file__).parents[2]
PROGRAMS = [name for name in program.names(ROOT) if name.count(".") == 1 and not name.startswith("scripts.")]


class Parsed(BaseException):
    """Ends a program at the moment at which it reads its arguments."""


def real_parser(name: str, monkeypatch: pytest.MonkeyPatch) -> argparse.ArgumentParser:
    """Start a program's `main` and return the parser that it makes."""
    found: list[argparse.ArgumentParser] = []

    def parse(self: argparse.ArgumentParser, *_: Any) -> None:
        found.append(self)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
    with pytest.raises(Parsed):
        importlib.import_module(f"experiments.{name}").main.__wrapped__()
    return found[0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_given_the_device_and_the_scaling_that_its_parser_takes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = {action.dest for action in real_parser(name, monkeypatch)._actions}
    assert {*program.find(ROOT, name).declares} == taken & {"device", "scaling"}
    assert args.THREADS in taken
    assert name != "mnist.data_parallel" or args.DEVICES in taken


def test_a_wrong_argument_is_one_printable_line(capsys: pytest.CaptureFixture[str]) -> None:
    parser = program_parser("A program.")
    parser.add_argument("--steps", type=at_least(1), default=1)
    for words, said in (
        (["--steps", "0"], "--steps: at least 1, not 0"),
        (["--steps", "many"], "--steps: invalid whole number value: 'many'"),
        (["--device", "tpu\x1b[2J"], "--device: invalid choice: "),
        (["x\ny\x1b]0;z"], "unrecognized arguments: x y\\x1b]0;z"),
    ):
        with pytest.raises(SystemExit) as ended:
            parser.parse_args(words)
        assert ended.value.code == 2
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith(f"error: {said}")
        assert line.isprintable()
    with pytest.raises(SystemExit):
        Parser("One.\n\nBy hand:  two").parse_args(["--help"])
    assert "One.\n\nBy hand:  two" in capsys.readouterr().out  # as it was written
