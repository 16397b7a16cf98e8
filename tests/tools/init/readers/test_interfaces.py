"""Which interface a script has, what it may be given besides what its source shows, and what shortens a run."""

from pathlib import Path
from typing import Any

import pytest

from runner.core.errors import RequestError
from runner.definitions.options import Configuration
from runner.tools.init.arguments import shortest
from tests.support.scripts import script

PARSER = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--x', default=1)\n"
OPEN = {
    "argparse": [
        PARSER + "args, rest = parser.parse_known_args()\n",
        PARSER + "import deepspeed\nparser = deepspeed.add_config_arguments(parser)\nargs = parser.parse_args()\n",
        PARSER + "from pytorch_lightning import Trainer\nparser = Trainer.add_argparse_args(parser)\n",
        PARSER + "for name in NAMES:\n    parser.add_argument('--' + name)\n",
        PARSER + "def add(*words, **given):\n    parser.add_argument(*words, **given)\n",
        "from megatron import get_parser\nparser = get_parser()\nparser.add_argument('--x')\nparser.parse_args()\n",
        "from base import TrainParser\nparser = TrainParser()\nparser.add_argument('--x')\n",
    ],
    "hf": [
        "from transformers import HfArgumentParser, TrainingArguments\nHfArgumentParser((TrainingArguments,))\n",
        "from transformers import HfArgumentParser\nfrom own import Arguments\nHfArgumentParser([Arguments])\n",
        "import transformers as t\nclass Mine(t.TrainingArguments): ...\nALL = (Mine,)\nt.HfArgumentParser(ALL)\n",
    ],
    "hydra": [
        "import hydra\n@hydra.main(config_path=None)\ndef main(cfg): ...\n",
        "from hydra import main\n@main()\ndef f(cfg): ...\n",
    ],
    "lightning": ["from lightning.pytorch.cli import LightningCLI\nLightningCLI(Model)\n"],
    "fire": [
        "import fire\nfrom own import Base\nclass Trainer(Base):\n    def run(self, x): ...\nfire.Fire(Trainer)\n",
        "import fire\nclass Trainer:\n    def run(self, **given): ...\nfire.Fire(Trainer)\n",
        "import fire\nfire.Fire()\n",
    ],
    "click": ["import click\n@click.command(context_settings={'ignore_unknown_options': True})\ndef f(): ...\n"],
    "tyro": ["import tyro\nfrom own import Args\ntyro.cli(Args)\n"],
    "plain": [
        "import sys\nprint(sys.argv)\n",
        "from sys import argv\n",
        "import somebodys_library\n",
        "exec(open('x.py').read())\n",
        "import importlib\nimportlib.import_module(NAME)\n",
    ],
    "yaml": ["import sys, yaml\nyaml.safe_load(open(sys.argv[1]))\n"],
}
CLOSED = {
    "argparse": [
        PARSER + "import sys\nargs = parser.parse_args(sys.argv[1:])\n",
        PARSER + "import argcomplete\nargcomplete.autocomplete(parser)\nprint(parser)\n",
        PARSER + "def more(parser):\n    parser.add_argument('--y')\nmore(parser)\n",
        "import argparse\nclass P(argparse.ArgumentParser): ...\np = P()\np.add_argument('--x')\np.parse_args()\n",
        "from trainkit.arguments import add_seed, program_parser\nparser = program_parser(None)\nadd_seed(parser)\n",
    ],
    "plain": ["print(1)\n", "import os, torch\nimport numpy as np\nmodel.eval()\nprint(torch.ones(1))\n"],
    "yaml": ["import yaml\nyaml.safe_load(open('config.yaml'))\n"],
}


@pytest.mark.parametrize(("kind", "source"), [(kind, source) for kind in OPEN for source in OPEN[kind]])
def test_an_arg_that_the_source_does_not_show_is_passed_on_if_there_may_be_more(
    kind: str, source: str, tmp_path: Path
) -> None:
    read = script(tmp_path, source)
    assert (read.interface.kind, read.interface.is_open) == (kind, True)
    read.check("never_seen", 3)
    word = "never_seen=3" if kind == "hydra" else "--never_seen=3" if kind == "fire" else "--never_seen 3"
    assert " ".join(read.argv({"never_seen": 3})) == word


@pytest.mark.parametrize(("kind", "source"), [(kind, source) for kind in CLOSED for source in CLOSED[kind]])
def test_an_arg_that_no_source_takes_is_refused_in_one_line(kind: str, source: str, tmp_path: Path) -> None:
    read = script(tmp_path, source)
    assert read.interface.kind == kind
    with pytest.raises(RequestError, match=r"^program train.py takes no arg 'never_seen'; [^\n]+$"):
        read.check("never_seen", 3)


def test_sys_argv_in_a_module_of_the_project_lets_args_through(tmp_path: Path) -> None:
    read = script(tmp_path, "import helper\n", helper_py="import sys\nLR = [word.split('=') for word in sys.argv]\n")
    assert read.interface.is_open
    assert read.argv({"lr": 0.1}) == ["--lr=0.1"]


def test_the_parser_of_a_module_that_is_imported_for_something_else_does_not_count(tmp_path: Path) -> None:
    other = "import argparse\nif __name__ == '__main__':\n    argparse.ArgumentParser().add_argument('--input')\n"
    assert script(tmp_path, "import helper\n", helper_py=other).interface.kind == "plain"


def test_the_commands_of_a_module_behind_the_script_count(tmp_path: Path) -> None:
    app = "import typer\napp = typer.Typer()\n@app.command()\ndef main(epochs: int = 3): ...\n"
    read = script(tmp_path, "from cli import app\napp()\n", cli_py=app)
    assert (read.interface.kind, list(read.options)) == ("typer", ["epochs"])


COMMANDS = {
    "argparse": """
        import argparse
        def add_both(parser):
            parser.add_argument("--out", required=True)
        parser = argparse.ArgumentParser()
        parser.add_argument("--seed", required=True)
        commands = parser.add_subparsers(dest="command")
        train = commands.add_parser("train")
        train.add_argument("--data", required=True)
        train.add_argument("--name")
        test = commands.add_parser("test")
        test.add_argument("ckpt")
        test.add_argument("--name")
        add_both(train)
        add_both(test)
        """,
    "click": """
        import click
        @click.group()
        @click.option("--seed", required=True)
        def cli(): ...
        def add_both(function):
            return click.option("--out", required=True)(function)
        @cli.command()
        @click.option("--data", required=True)
        @click.option("--name")
        @add_both
        def train(data, name, out): ...
        @cli.command()
        @click.argument("ckpt")
        @click.option("--name")
        @add_both
        def test(ckpt, name, out): ...
        """,
    "typer": """
        import typer
        app = typer.Typer()
        @app.callback()
        def top(seed: str): ...
        @app.command()
        def train(data: str, out: str, name: str = ""): ...
        @app.command()
        def test(ckpt: str, out: str, name: str = ""): ...
        """,
    "fire": """
        import fire
        class Trainer:
            def __init__(self, seed): ...
            def train(self, data, out, name=""): ...
            def test(self, ckpt, out, name=""): ...
            def _load(self, path): ...
        fire.Fire(Trainer)
        """,
}


@pytest.mark.parametrize("kind", COMMANDS)
def test_beside_a_subcommand_stand_no_args_of_another_one(kind: str, tmp_path: Path) -> None:
    read = script(tmp_path, COMMANDS[kind])
    assert read.options["command"].choices == ("train", "test")
    both = {"seed", "command", "name", "out"}
    assert read.options.keys() == {*both, "data", "ckpt"}
    assert read.of_subcommand({"data": 1, "command": None}) == read
    assert read.of_subcommand({"command": "train"}).options.keys() == {*both, "data"}
    assert read.of_subcommand({"command": "test"}).options.keys() == {*both, "ckpt"}


def test_lightning_s_subcommand_stands_first(tmp_path: Path) -> None:
    read = script(tmp_path, OPEN["lightning"][0])
    assert read.argv({"trainer.max_epochs": 1, "command": "fit"}) == ["fit", "--trainer.max_epochs", "1"]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import yaml\nyaml.safe_load(open('conf/a.yaml'))\n", Configuration("yaml", "", "conf/a.yaml")),
        ("import sys, yaml\nyaml.safe_load(open(sys.argv[1]))\n", Configuration("yaml", "config")),
        (
            PARSER + "parser.add_argument('--config', default='b.yaml')\nargs = parser.parse_args()\nimport yaml\n"
            "def load(path):\n    with open(path) as file:\n        return yaml.safe_load(file)\nload(args.config)\n",
            Configuration("yaml", "config", "b.yaml"),
        ),
        (
            PARSER + "parser.add_argument('--cfg', required=True)\nargs = parser.parse_args()\n"
            "from omegaconf import OmegaConf\nOmegaConf.load(args.cfg)\n",
            Configuration("yaml", "cfg"),
        ),
        (
            PARSER + "parser.add_argument('--config')\nargs = parser.parse_args()\nimport json\n"
            "from pathlib import Path\njson.loads(Path(args.config).read_text())\n",
            Configuration("json", "config"),
        ),
        (PARSER + "parser.add_argument('--data')\nimport json\njson.load(open(parser.parse_args().data))\n", None),
        (PARSER, None),
    ],
)
def test_a_file_of_settings_is_found_with_the_argument_that_names_it(
    source: str, found: Configuration | None, tmp_path: Path
) -> None:
    assert script(tmp_path, source).interface.configuration == found


@pytest.mark.parametrize(
    ("source", "args"),
    [
        ("parser.add_argument('--epochs', type=int, default=90)\n", {"epochs": 1}),
        ("parser.add_argument('--epochs', default=90)\nparser.add_argument('--lr')\n", {"epochs": 1}),
        ("parser.add_argument('--epochs', action='store_true')\n", {}),
        ("parser.add_argument('--epochs', type=int, choices=[5, 9])\n", {}),
        (
            "parser.add_argument('--epoch', type=int)\nparser.add_argument('--num_epochs', type=int)\n",
            {"num_epochs": 1},
        ),
        ("parser.add_argument('--max-steps', type=int, default=-1)\n", {"max_steps": 10}),
        ("parser.add_argument('--steps', type=int, default=5)\n", {"steps": 5}),
        ("parser.add_argument('--lr')\n", {}),
        (OPEN["hf"][0], {"max_steps": 10}),
        (OPEN["hf"][1], {}),
        (OPEN["hf"][2], {"max_steps": 10}),
        ("from trl import SFTConfig, TrlParser\nTrlParser((SFTConfig,))\n", {"max_steps": 10}),
        (OPEN["hydra"][0], {}),
        (OPEN["lightning"][0], {"command": "fit", "trainer.max_steps": 10}),
    ],
)
def test_a_first_try_is_as_short_as_the_program_lets_it_be(source: str, args: dict[str, Any], tmp_path: Path) -> None:
    assert shortest(script(tmp_path, source).interface) == args


def test_a_first_try_of_hydra_is_short_if_its_configuration_can_be_read(tmp_path: Path) -> None:
    source = "import hydra\n@hydra.main(config_path='conf', config_name='a')\ndef main(cfg): ...\n"
    read = script(
        tmp_path, source, conf__a_yaml="trainer:\n  max_epochs: 9\nscheduler:\n  epochs: ${trainer.max_epochs}\n"
    )
    assert shortest(read.interface) == {"trainer.max_epochs": 1}
    assert script(tmp_path, source, conf__a_yaml="epochs: [\n").options == {}


def test_defaults_that_stand_in_the_source_are_known(tmp_path: Path) -> None:
    source = (
        "parser.add_argument('--a', default=0.5)\nparser.add_argument('--b', default=os.cpu_count())\n"
        "parser.add_argument('--c', action='store_true')\nparser.set_defaults(a=2, b='x')\n"
        "parser.add_argument('--d', required=True)\n"
    )
    read = script(tmp_path, source)
    assert {key: option.default for key, option in read.options.items()} == {"a": 2, "b": "x", "c": False, "d": None}
    assert {key for key, option in read.options.items() if option.required} == {"d"}
