"""The sentences of BERT: verified, split, and batched by length."""

import itertools
import json
import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from experiments.bert import arguments, data, model, sentences
from tests.experiments import tiny_bert
from trainkit import sharding as shards
from trainkit.errors import Refusal
from trainkit.run import Run


def arguments_for(folder: Path, *words: str) -> Namespace:
    return arguments.bert_parser(None).parse_args(["--data-dir", str(folder), "--device", "cpu", *words])


def load(folder: Path, *words: str) -> data.Data:
    args = arguments_for(folder, *words)
    return data.load(args, Run("test", args))


@given(
    lengths=st.lists(st.integers(2, 60), min_size=1, max_size=200),
    batch_size=st.integers(1, 70),
    seed=st.integers(0, 2**32),
)
def test_an_order_by_length_has_each_sample_once_in_like_batches(
    lengths: list[int], batch_size: int, seed: int
) -> None:
    sizes = torch.tensor(lengths)
    order = shards.epoch_order(len(lengths), seed, 1)
    made = data.by_length(order, sizes, batch_size, torch.Generator().manual_seed(seed))
    assert sorted(made.tolist()) == list(range(len(lengths)))
    batches = sizes[made][: len(lengths) // batch_size * batch_size].view(-1, batch_size)
    spans = sorted((int(batch.min()), int(batch.max())) for batch in batches)
    assert all(shorter[1] <= longer[0] for shorter, longer in itertools.pairwise(spans))


def test_a_sentence_longer_than_the_model_takes_is_cut(reviews: Path) -> None:
    run = Run("test", arguments_for(reviews))
    long = sentences.Sentences(["filler1 " * 100, "filler1"], torch.tensor([0, 1]), "test", {})
    made = data.tokenise(reviews / "bert" / "model", long, run.device)
    assert made.lengths.tolist() == [64, 3]


def test_the_split_has_every_sentence_once_and_depends_on_the_seed() -> None:
    train, test = sentences.split(10_662, 1)
    assert len(test) == 1_067
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(10_662))
    assert not torch.equal(sentences.split(10_662, 2)[1], test)


BROKEN: dict[str, Callable[[Path], object]] = {
    "no list": lambda folder: (folder / "prepared.json").unlink(),
    "another file": lambda folder: (folder / "positive.txt").write_text("a fine film\n"),
}


@pytest.mark.parametrize("breaks", BROKEN.values(), ids=BROKEN)
def test_invalid_sentences_are_refused_with_the_folder_and_the_way_out(
    reviews: Path, tmp_path: Path, breaks: Callable[[Path], object]
) -> None:
    folder = shutil.copytree(reviews / "bert", tmp_path / "bert") / "sentences"
    breaks(folder)
    with pytest.raises(Refusal, match=f"{folder} .*`runner prepare bert`$"):
        load(tmp_path)


def add_words(folder: Path) -> None:
    (folder / "vocab.txt").write_text((folder / "vocab.txt").read_text() + "zzz\n" * 9 + "never\n")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 40}))


NOT_WHOLE: list[tuple[Callable[[Path], object], str]] = [
    (lambda folder: (folder / "vocab.txt").unlink(), "no tokenizer"),
    (lambda folder: (folder / "model.safetensors").unlink(), "no weights"),
    (lambda folder: (folder / "model.safetensors").write_bytes(b"torn"), "transformers cannot load"),
    (add_words, "vocabulary"),
]


def test_a_model_that_is_not_whole_is_refused(reviews: Path, tmp_path: Path) -> None:
    whole = tiny_bert.write_model(tmp_path / "model")
    for number, (breaks, word) in enumerate(NOT_WHOLE):
        folder = shutil.copytree(whole, tmp_path / str(number))
        breaks(folder)
        args = arguments_for(reviews, "--model", str(folder))
        run = Run("test", args)
        with pytest.raises(Refusal, match=word):
            model.build_model(data.load(args, run).folder, args, run)
