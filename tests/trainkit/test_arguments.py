"""The arguments of programs: refusals, and their agreement with what `runner` reads from the source."""

import argparse
import importlib
from pathlib import Path
from typing import Any

import pytest

from runner.definitions import args, program
from trainkit.arguments import at_least, program_parser

ROOT = Path(__file__).parents[2]
PROGRAMS = [name for name in program.names(ROOT) if name.count(".") == 1 and not name.startswith("scripts.")]


class Parsed(BaseException):
    """Raised when a program parses its arguments."""


def real_parser(name: str, monkeypatch: pytest.MonkeyPatch) -> argparse.ArgumentParser:
    found: list[argparse.ArgumentParser] = []

    def parse(self: argparse.ArgumentParser, *_: Any) -> None:
        found.append(self)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
    with pytest.raises(Parsed):
        importlib.import_module(f"experiments.{name}").main.__wrapped__()
    return found[0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_runner_passes_the_device_and_the_scaling_that_a_parser_takes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = {action.dest for action in real_parser(name, monkeypatch)._actions}
    assert {*program.find(ROOT, name).declares} == taken & {"device", "scaling"}
    assert args.THREADS in taken
    assert name != "mnist.data_parallel" or args.DEVICES in taken


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--steps", "0"], "--steps: at least 1"),
        (["--device", "tpu\x1b[2J"], "--device: invalid choice"),
        (["x\ny\x1b]0;z"], "unrecognized arguments: x y\\x1b]0;z"),
    ],
)
def test_a_wrong_argument_is_one_printable_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = program_parser("One.\n\nBy hand:  two")
    parser.add_argument("--steps", type=at_least(1), default=1)
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(words)
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {said}")
    assert line.isprintable()
    assert "One.\n\nBy hand:  two" in parser.format_help()
