"""What the runner reads of a script's source is what the library behind it takes: the scripts are run."""

import contextlib
import io
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.definitions.program import Program
from tests.support.scripts import ABSENT, Case, script
from tests.tools.init.readers.further_libraries import FURTHER

CONSTANTS = {
    "configurator_py": """
        import sys
        from ast import literal_eval
        for arg in sys.argv[1:]:
            assert arg.startswith("--")
            key, val = arg.split("=")
            key = key[2:]
            try:
                attempt = literal_eval(val)
            except (SyntaxError, ValueError):
                attempt = val
            assert type(attempt) == type(globals()[key])
            globals()[key] = attempt
        """
}
CASES = {
    "argparse": Case(
        "argparse",
        """
        import argparse, json
        parser = argparse.ArgumentParser()
        parser.add_argument("--verbose", "-v", action="count", default=0)
        commands = parser.add_subparsers(dest="task", required=True)
        command = commands.add_parser("train")
        group = command.add_argument_group("training")
        group.add_argument("--epochs", type=int, default=10)
        group.add_argument("-lr", type=float, required=True)
        group.add_argument("-b", "--batch-size", type=int, default=8)
        group.add_argument("--sizes", type=int, nargs="+")
        group.add_argument("--tag", action="append")
        group.add_argument("--shuffle", type=bool, default=True)
        group.add_argument("--pin", type=lambda text: text == "True")
        group.add_argument("--gpus", type=int, choices=[1, 2, 4])
        command.add_argument("data")
        command = commands.add_parser("eval")
        command.add_argument("--split")
        print(json.dumps(vars(parser.parse_args())))
        """,
        {
            "data": "-a b",
            "task": "train",
            "verbose": True,
            "epochs": 2,
            "lr": -1e-3,
            "batch_size": 4,
            "sizes": "1 -2",
            "tag": "x 'y z'",
            "shuffle": False,
            "pin": True,
            "gpus": 2,
        },
        {"verbose": 1, "sizes": [1, -2], "tag": ["x", "y z"]},
        frozenset({"data", "lr", "task"}),
    ),
    "click": Case(
        "click",
        """
        import click, json
        @click.command()
        @click.argument("data-dir")
        @click.option("--lr", "-l", "rate", type=float, default=0.1)
        @click.option("-n", "--n-epochs", default=3, show_default=True)
        @click.option("--amp/--no-amp", default=True)
        @click.option("--shout/--quiet", " /-q")
        @click.option("--dry", is_flag=True)
        @click.option("--sure", default=False, type=bool)
        @click.option("--tag", multiple=True)
        @click.option("--size", nargs=2, type=int)
        @click.option("--model", type=click.Choice(["18", "34"]), required=True)
        @click.option("-b", type=click.IntRange(1), default=2)
        @click.argument("rest", nargs=-1)
        def main(**given):
            print(json.dumps(given))
        if __name__ == "__main__":
            main()
        """,
        {
            "data_dir": "-x y",
            "lr": -1e-3,
            "n_epochs": 2,
            "amp": False,
            "shout": False,
            "dry": True,
            "sure": True,
            "tag": "a 'b c'",
            "size": "3 4",
            "model": 18,
            "b": 5,
            "rest": "u v",
        },
        {"rate": -0.001, "tag": ["a", "b c"], "size": [3, 4], "model": "18", "rest": ["u", "v"], "lr": ABSENT},
        frozenset({"data_dir", "model"}),
    ),
    "click group": Case(
        "click",
        """
        import json
        from click import argument, group, option
        @group()
        @option("--debug/--no-debug", default=False)
        def cli(debug):
            assert debug
        @cli.command()
        @option("--epochs", default=3)
        @argument("path")
        def train_it(epochs, path):
            print(json.dumps([epochs, path]))
        @cli.command("test")
        @option("--split", default="val")
        def test(split):
            pass
        cli()
        """,
        {"path": "here", "epochs": 2, "command": "train-it", "debug": True},
        [2, "here"],
        frozenset({"path", "command"}),
    ),
    "typer": Case(
        "typer",
        """
        import enum, json
        from typing import Annotated, List, Optional, Tuple
        import typer
        class Mode(str, enum.Enum):
            FAST = "fast"
            SLOW = "slow"
        app = typer.Typer()
        @app.command()
        def main(
            data: str,
            out: Annotated[str, typer.Argument(help="x")] = "o",
            batch_size: int = 32,
            lr: Annotated[float, typer.Option("--learning-rate", "-l")] = 0.1,
            amp: bool = True,
            force: bool = typer.Option(False, "--force"),
            yes: bool = typer.Option(False, "--yes/--nope"),
            mode: Mode = Mode.FAST,
            seed: Optional[int] = None,
            need: int = typer.Option(...),
            tags: List[str] = [],
            size: Tuple[int, int] = (1, 2),
            number: Annotated[int, typer.Option(min=1)] = 3,
            maybe: "Optional[str]" = typer.Option(None),
        ):
            print(json.dumps(locals()))
        if __name__ == "__main__":
            app()
        """,
        {
            "data": "d",
            "out": "p q",
            "batch_size": 8,
            "learning_rate": -0.5,
            "amp": False,
            "force": True,
            "yes": False,
            "mode": "slow",
            "seed": 3,
            "need": 4,
            "tags": "a b",
            "size": "3 4",
            "number": 2,
        },
        {"lr": -0.5, "maybe": None, "tags": ["a", "b"], "size": [3, 4], "learning_rate": ABSENT},
        frozenset({"data", "need"}),
    ),
    "typer with commands": Case(
        "typer",
        """
        import json, typer
        app = typer.Typer()
        @app.callback()
        def top(verbose: bool = False):
            assert verbose
        @app.command()
        def train_it(epochs: int = 3):
            print(json.dumps({"epochs": epochs}))
        @app.command("eval")
        def evaluate(path: str):
            pass
        app()
        """,
        {"epochs": 1, "command": "train-it", "verbose": True},
        {"command": ABSENT, "verbose": ABSENT},
        frozenset({"command", "path"}),
    ),
    "typer run": Case(
        "typer",
        """
        import json
        from typer import run
        def main(n_epochs: int, name: str = "x"):
            print(json.dumps(locals()))
        run(main)
        """,
        {"name": "a b", "n_epochs": 1},
        {},
        frozenset({"n_epochs"}),
    ),
    "hf": Case(
        "transformers",
        """
        import json
        from dataclasses import dataclass, field
        from enum import Enum
        from typing import List, Literal, Optional
        from transformers.hf_argparser import HfArgumentParser
        class Kind(Enum):
            A = "a"
            B = "b"
        @dataclass
        class Base:
            model_name_or_path: str = field(metadata={"help": "a path"})
            use_fast: bool = field(default=True)
        @dataclass
        class Model(Base):
            fp16: bool = False
            maybe: Optional[bool] = None
            kind: Kind = Kind.A
            split: Literal["x", "y"] = "x"
            mode: str = field(default="fast", metadata={"choices": ["fast", "exact"]})
        @dataclass
        class Data:
            max_length: Optional[int] = None
            modules: List[str] = field(default_factory=lambda: ["q"])
            lr: float = 1e-4
            hidden: int = field(default=1, init=False)
        parser = HfArgumentParser((Model, Data))
        model, data = parser.parse_args_into_dataclasses()
        print(json.dumps({**vars(model), **vars(data)}, default=lambda kind: kind.value))
        """,
        {
            "model_name_or_path": "a b",
            "use_fast": False,
            "fp16": True,
            "maybe": True,
            "kind": "b",
            "split": "y",
            "mode": "exact",
            "max_length": 7,
            "modules": "q k",
            "lr": -2,
        },
        {"modules": ["q", "k"], "lr": -2.0},
        frozenset({"model_name_or_path"}),
    ),
    "constants": Case(
        "json",
        """
        import json
        out_dir = "out"
        batch_size = 12
        lr = 6e-4
        compile = True
        keys = [key for key, value in globals().items() if not key.startswith("_")]
        exec(open("configurator.py").read())
        print(json.dumps([out_dir, batch_size, lr, compile]))
        """,
        {"out_dir": "a b", "batch_size": 4, "lr": 1e-3, "compile": False},
        ["a b", 4, 1e-3, False],
        beside=CONSTANTS,
        is_open=True,
    ),
    **FURTHER,
}


def arrived(read: Program, args: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Check args as a definition's are, run the script with them, and return the JSON that it prints last."""
    for key, value in args.items():
        read.check(key, value)
    stdout, stderr = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "argv", [str(read.path), *read.argv(args)])
    monkeypatch.chdir(read.path.parent)
    code: object = 0
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            runpy.run_path(str(read.path), run_name="__main__")
        except SystemExit as ended:
            code = ended.code
    assert not code, f"{sys.argv[1:]}: {stderr.getvalue() or stdout.getvalue()}"
    return json.loads(stdout.getvalue().splitlines()[-1])


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", CASES)
def test_args_are_read_from_the_source_and_arrive_in_the_script_as_they_were_meant(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    read = script(tmp_path, case.source, **case.beside)
    assert read.interface.kind == name.partition(" ")[0]
    assert case.args.keys() <= read.options.keys() or not read.options
    assert {key for key, option in read.options.items() if option.required} == case.required
    assert read.interface.is_open == case.is_open
    pytest.importorskip(case.library, reason=f"{case.library} is not installed")
    printed = case.printed
    if isinstance(printed, dict):
        every = {**{key: value for key, value in case.args.items() if "." not in key}, **printed}
        printed = {key: value for key, value in every.items() if value is not ABSENT}
    assert arrived(read, case.args, monkeypatch) == printed
