"""Whatever a source file holds: it is read, or refused in one line, soon; nothing of it is run."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.core.errors import RequestError
from runner.definitions import program
from runner.tools.init.arguments import shortest

HOSTILE = {
    "parentheses": "(" * 5_000,
    "signs": "x = " + "-" * 100_000 + "1",
    "calls": "f(" * 300 + ")" * 300,
    "attributes": "parser" + ".a" * 20_000 + ".add_argument('--x')\n",
    "sum": "x = " + "+".join("1" * 3_000) + "\nparser.add_argument('--x', default=" + "+".join("1" * 3_000) + ")\n",
    "default": f"parser.add_argument('--x', default={'[' * 150}{']' * 150}, choices={{}})\n",
    "unhashable": "parser.add_argument('--x', choices={[]: 1}, default={[1]})\n",
    "huge number": f"parser.add_argument('--x', type=at_least(0x{'f' * 5000}), default=0x{'f' * 5000})\n",
    "spelling": "parser.add_argument('--\\x1b[2J\\0', choices=['\\x1b[31m', '\\0'])\nparser.add_argument('')\n",
    "classes": "import tyro\n"
    + "".join(f"class C{n}:\n a: C{n + 1}\n b: C{n + 1}\n c: C{n + 1}\n" for n in range(60))
    + "tyro.cli(C0)\n",
    "circle": "import tyro\nclass A(B):\n b: 'B'\nclass B(A):\n a: A\n x: int\ntyro.cli(A)\n",
    "chain": "import tyro\n" + "".join(f"class C{n}(C{n + 1}):\n x: int\n" for n in range(5_000)) + "tyro.cli(C0)\n",
    "diamonds": "from transformers import HfArgumentParser\n"
    + "".join(
        f"class C{n}(C{n + 1}, D{n + 1}):\n x: int\nclass D{n}(C{n + 1}, D{n + 1}):\n y: int\n" for n in range(90)
    )
    + "HfArgumentParser(C0)\n",
    "many": "".join(f"parser.add_argument('--x{n}')\n" for n in range(20_000)),
    "guards": "".join(f"if __name__ == '__main__':\n  f({n})\n" for n in range(20_000)),
    "loads": "import yaml\n" + "".join(f"def f{n}(x):\n  yaml.load(x)\nf{n}(x)\n" for n in range(8_000)),
    "subparsers": "s = p.add_subparsers()\n"
    + "".join(f"a = s.add_parser('x{n}')\na.add_argument('--y{n}')\n" for n in range(10_000)),
    "groups": "s = p.add_subparsers()\n" + "a = a.add_argument_group()\n" * 10_000 + "a.add_argument('--x')\n",
    "annotations": "import typer\ndef f(x: " + "Optional[" * 90 + "int" + "]" * 90 + "): ...\ntyper.run(f)\n",
    "unions": "import typer\ndef f(x: " + "|".join(["int"] * 2_000) + "): ...\ntyper.run(f)\n",
    "text annotation": "import typer\ndef f(x: '"
    + "(" * 5_000
    + "', y: 'x\\0', z: '"
    + "-" * 5_000
    + "1'): ...\ntyper.run(f)\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_source_is_read_or_refused_in_one_line_and_soon(name: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(HOSTILE[name])
    began = time.thread_time()
    try:
        read = program.find(tmp_path, "train.py")
    except RequestError as refused:
        assert str(refused).startswith(f"{path}:")
        assert str(refused).isprintable()
    else:
        assert len(read.options) <= 20_000
        assert all(option.spelling.isprintable() for option in read.options.values())
        assert isinstance(shortest(read.interface), dict)
        assert all(str(option.refuses(object())).isprintable() for option in read.options.values())
        assert all("\0" not in word for word in read.argv(dict.fromkeys(read.options, "x")))
    assert time.thread_time() - began < 10


def test_a_configuration_of_hydra_from_a_stranger_is_read_or_left_out(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import hydra\n@hydra.main(config_path='.', config_name='c')\ndef f(cfg): ...\n")
    path = tmp_path / "c.yaml"
    os.mkfifo(path)
    assert program.find(tmp_path, "train.py").options == {}
    path.unlink()
    for text in (
        "a: " + "[" * 5_000,
        "a: &a [*a]",
        'defaults: [{"g\\0": "../x\\0"}, {1: 2}, 3]\n"b\\n": 1',
        "- 1",
        "\0",
    ):
        path.write_text(text)
        assert program.find(tmp_path, "train.py").options.keys() <= {"a"}


@pytest.mark.parametrize(
    "source", [b"\xef\xbb\xbfparser.add_argument('--x')\r\n", b"# coding: latin-1\n# \xe9\nparser.add_argument('--x')"]
)
def test_a_source_in_another_encoding_or_with_windows_line_ends_is_read(source: bytes, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes(source)
    assert list(program.find(tmp_path, "train.py").options) == ["x"]


WORD = st.sampled_from(
    "click.option click.argument click.command typer.Option typer.run fire.Fire tyro.cli HfArgumentParser hydra.main "
    "parser.add_argument parser.set_defaults sub.add_parser p.add_subparsers CLI LightningCLI yaml.load f C x".split()
)
TEXT = st.sampled_from(["--x", "-x", "x", "--a/--b", "", "-", "--", "a b", "/", "--é", "-1", "\\x00", "int", "C", "f"])
VALUE = st.deferred(
    lambda: st.one_of(
        WORD,
        TEXT.map(lambda text: f"'{text}'"),
        st.sampled_from(
            ["None", "True", "...", "1", "-1", "1e999", "0x" + "f" * 99, "b'x'", "1j", "{}", "*x", "lambda: 0"]
        ),
        st.lists(VALUE, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        CALL,
    )
)
KEY = st.sampled_from(
    "type default choices nargs action is_flag required multiple min dest run config_name metadata".split()
)
CALL = st.builds(
    lambda name, values, named: f"{name}({', '.join([*values, *(f'{key}={value}' for key, value in named.items())])})",
    WORD,
    st.lists(VALUE, max_size=3),
    st.dictionaries(KEY, VALUE.filter(lambda value: not value.startswith("*")), max_size=3),
)
TYPE = st.sampled_from(
    ["int", "bool", "C", "Optional[C]", "list[int]", "Literal['a', 1]", "'C | None'", "E", "[x]", "f()"]
)
PLACE = VALUE.filter(lambda value: not value.startswith("*"))
STATEMENT = st.one_of(
    CALL,
    st.builds("x = {}".format, PLACE),
    st.builds("@{}\ndef f(x: {} = {}, *, y: {}): ...".format, CALL, TYPE, PLACE, TYPE),
    st.builds("@{}\nclass C({}):\n    x: {} = {}\n    y: {}".format, WORD, WORD, TYPE, PLACE, TYPE),
    st.just("class E(Enum):\n    A = 1\n    B = f()"),
)


@settings(max_examples=200)
@given(source=st.lists(STATEMENT, max_size=12))
def test_any_source_is_read_or_refused_in_one_line(source: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.getbasetemp()
    libraries = "import click, typer, fire, tyro, hydra, yaml\nfrom transformers import HfArgumentParser\n"
    (root / "train.py").write_text(libraries + "\n".join(source))
    try:
        read = program.find(root, "train.py")
    except RequestError as refused:
        assert str(refused).startswith(f"{root / 'train.py'}:")
        assert str(refused).isprintable()
        return
    for key, value in {**dict.fromkeys(read.options, "a 'b"), **shortest(read.interface)}.items():
        words = read.argv({key: value})
        assert all(isinstance(word, str) and word.isprintable() for word in words)
