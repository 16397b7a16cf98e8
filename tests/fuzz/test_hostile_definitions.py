"""Whatever a definition or an archive holds: it is read, or refused in one printable line, in under two seconds.

Everything runs in this process, through the functions that `runner plan` and `runner prepare` call.
"""

import gzip
import io
import json
import random
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.bert import prepare as bert
from experiments.mnist import prepare as mnist
from runner.core.errors import RequestError
from runner.core.layout import Layout
from runner.core.yaml_reader import scalar
from runner.definitions.experiment import load
from runner.definitions.plan import make_plan
from tests.fuzz.sizes import DEFINITIONS, MOST_SECONDS
from tests.support.archives import tar
from tests.support.patience import patient
from trainkit.errors import Refusal

pytestmark = pytest.mark.slow

fuzz = settings(max_examples=DEFINITIONS, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
SOURCE = """
parser.add_argument("--lr", type=float)
parser.add_argument("--steps", type=int)
parser.add_argument("--note")
parser.add_argument("--flag", action="store_true")
if __name__ == "__main__":
    pass
"""
GOOD = {
    "name": "tiny",
    "summary": "s",
    "program": "toys.ok",
    "args": {"steps": 5, "lr": 0.5},
    "scaling": "weak",
    "matrix": {"layout": ["1x1", "2+3"], "note": ["a", "b"]},
    "skip": [{"layout": "2+3", "note": "a", "when": "cuda", "why": "too large"}],
    "baseline": {"layout": "1x1"},
    "measure": "train_seconds",
    "repeat": 2,
    "timeout_seconds": 10,
    "published": {"source": "s", "rows": [{"layout": "1x1", "hardware": "1x A100", "train_seconds": 1.5}]},
}
TEXT = "\n".join(f"{key}: {json.dumps(value)}" for key, value in GOOD.items())
WORDS = st.sampled_from(
    ["1x1", "2+3", "65536x1", "0x1", "toys.ok", "layout", "note", "steps", "lr", "why", "when", "cpu", "\x1b[2J",
     ".nan", "-.inf", "1e999", "0x" + "f" * 300, "9" * 4_000, "../..", "a\nb", "\u202e", "x" * 11_000, "", " "]
)  # fmt: skip
NUMBERS = st.sampled_from([0, -1, 1, 2**63, -(2**64), 10**300, 1e308, 5e-324, float("nan"), float("inf")])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | NUMBERS | st.text(max_size=8) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
YAML_ISH = st.text(st.sampled_from("abz019 :-?,[]{}&*!|>'\"%@`#\n\t\\.~<=eE+_x\0\ud800é"), max_size=80)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "experiments" / "toys").mkdir(parents=True)
    (folder / "experiments" / "toys" / "ok.py").write_text(SOURCE)
    return folder


def one_line(act: Callable[[], object]) -> None:
    """Do something: it ends soon, and what it refuses is one printable line."""
    began = time.thread_time()
    try:
        act()
    except RequestError as error:
        assert str(error).isprintable()
        assert len(str(error)) < 5_000
    except Refusal as refusal:
        assert refusal.line.isprintable()
    assert time.thread_time() - began < patient(MOST_SECONDS)


def plan(root: Path, data: bytes, **choices: Any) -> None:
    path = root / "experiments" / "tiny.yaml"
    path.write_bytes(data)
    experiment = load(path, root)
    experiment.sha256()
    json.dumps(experiment.resolved(), allow_nan=False)
    for cell in make_plan(experiment, device="cpu", **choices).cells:
        assert cell.threads_per_process >= 1
        cell.command()


@fuzz
@given(st.sampled_from([*GOOD]), st.randoms(use_true_random=False), VALUES)
def test_any_value_deep_within_a_definition(root: Path, key: str, draws: random.Random, value: object) -> None:
    values = json.loads(json.dumps(GOOD))
    holder, place = values, key
    while isinstance(holder[place], dict | list) and holder[place] and draws.random() < 0.8:
        holder = holder[place]
        place = draws.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    holder[place] = value
    one_line(lambda: plan(root, json.dumps(values).encode()))


@fuzz
@given(st.integers(0, len(TEXT)), st.integers(0, 40), st.one_of(st.binary(max_size=60), YAML_ISH.map(
    lambda text: text.encode("utf-8", "surrogatepass"))), st.sampled_from([1, 1, 1, 50, 2_000]))  # fmt: skip
def test_any_bytes_in_a_definition(root: Path, start: int, length: int, data: bytes, times: int) -> None:
    text = TEXT.encode()
    one_line(lambda: plan(root, text[:start] + data * times + text[start + length :]))


@fuzz
@given(
    st.lists(st.tuples(st.sampled_from(["note", "layout", "steps", "x"]), YAML_ISH | WORDS).map("=".join), max_size=3),
    st.lists(st.tuples(st.sampled_from(["steps", "lr", "flag", ""]), YAML_ISH | WORDS).map("=".join), max_size=3),
    st.lists(YAML_ISH | WORDS | st.sampled_from(["1x1,2x2", "1x4"]), max_size=2),
)
def test_any_words_on_the_command_line(root: Path, only: list[str], changes: list[str], layouts: list[str]) -> None:
    one_line(lambda: plan(root, TEXT.encode(), only=only, changes=changes, layouts=layouts))
    for word in (*only, *changes, *layouts):
        one_line(lambda word=word: scalar(word))  # type: ignore[misc]
        try:
            layout = Layout.parse(word)
        except ValueError:
            continue
        assert layout.node_of(layout.world_size - 1) == layout.nodes - 1


def archives() -> list[bytes]:
    """Make small archives of each kind with the files that the families look for."""
    content = {name: gzip.compress(b"x" * 200) for name in mnist.MNIST}
    content |= dict.fromkeys(bert.RT_POLARITY, b"a b\n" * 50)
    content |= {
        bert.SNIPPETS: b"1\t2.5\tgood\n2\t-1\tbad\n",
        "model.safetensors": b"w" * 100,
        "vocab.txt": b"a\n",
        "config.json": b'{"model_type": "bert"}',
    }
    members = [(f"a/{name}" if len(name) % 2 else f"{'é' * 120}/{name}", data) for name, data in content.items()]
    packed = [tar(*members, mode=mode) for mode in ("w", "w:gz", "w:xz")]
    for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", kind) as archive:
            for name, data in content.items():
                archive.writestr(f"b/{name}", data)
            archive.writestr("inner.tgz", packed[1])
        packed.append(stream.getvalue())
    return packed


PACKED = archives()
CUTS = st.sampled_from([1.0, 1.0, 1.0, 0.99, 0.5, 0.01])
DAMAGE = st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=8)), max_size=4)


def damaged(number: int, damage: list[tuple[float, bytes]], cut: float) -> bytes:
    data = bytearray(PACKED[number])
    for share, piece in damage:
        place = int(share * (len(data) - 1))
        data[place : place + len(piece)] = piece
    return bytes(data[: int(len(data) * cut)])


@fuzz
@given(st.integers(0, len(PACKED) - 1), DAMAGE, CUTS, st.sampled_from([bert, mnist]))
def test_any_damage_to_an_archive(
    tmp_path_factory: pytest.TempPathFactory, number: int, damage: list[tuple[float, bytes]], cut: float, family: Any
) -> None:
    folder = tmp_path_factory.getbasetemp()
    source = folder / "source"
    source.write_bytes(damaged(number, damage, cut))
    if family is bert:
        one_line(lambda: bert.prepare(folder / "data", source, source, from_packages=True))
    else:
        one_line(lambda: mnist.prepare(folder / "data", source))
