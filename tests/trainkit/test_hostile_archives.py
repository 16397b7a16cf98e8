"""Archives and data folders from a stranger: refused in one line, within bounds, and nothing is written elsewhere."""

import gzip
import io
import math
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.bert import prepare as bert
from tests.support.archives import folder, tar, zipped
from trainkit.archives import find_files, gunzip
from trainkit.errors import Refusal

MEMBERS = [("é" * 120 + "/other", b"a b" * 50), ("a/wanted", gzip.compress(b"x" * 200))]
PACKED = [*(tar(*MEMBERS, mode=mode) for mode in ("w", "w:gz", "w:xz")), zipped(*MEMBERS)]


def find(source: Path, tmp_path: Path, deep: int = 0) -> dict[str, bytes]:
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    found = find_files(source, scratch, lambda name: name if name == "wanted" else None, deep)
    return {name: path.read_bytes() for name, path in found.items()}


def refusal(source: Path, tmp_path: Path) -> str:
    with pytest.raises(Refusal) as refused:
        find(source, tmp_path)
    said = refused.value.line
    assert said.startswith(str(source))
    assert said.isprintable()
    return said.removeprefix(f"{source}: ")


def write(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "source"
    path.write_bytes(content)
    return path


@settings(max_examples=300, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(
    st.sampled_from(PACKED), st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=8)), max_size=4), st.floats(0, 1)
)
def test_any_damage_to_an_archive_is_one_line(
    tmp_path: Path, packed: bytes, damage: list[tuple[float, bytes]], cut: float
) -> None:
    data = bytearray(packed)
    for share, piece in damage:
        place = int(share * (len(data) - 1))
        data[place : place + len(piece)] = piece
    source = write(tmp_path, bytes(data[: math.ceil(len(data) * cut)]))
    try:
        find(source, tmp_path)
    except Refusal as refused:
        assert refused.line.isprintable()


def test_a_zip_member_that_lies_about_its_size_is_one_line(tmp_path: Path) -> None:
    for told in (5, 2**31):
        whole = bytearray(zipped(("wanted", bytes(range(256)) * 40)))
        for offset in (whole.index(b"PK\x03\x04") + 22, whole.index(b"PK\x01\x02") + 24):
            whole[offset : offset + 4] = struct.pack("<I", told)
        assert "wanted cannot be read" in refusal(write(tmp_path, bytes(whole)), tmp_path)


def test_a_decompression_bomb_is_refused_before_it_unpacks(tmp_path: Path) -> None:
    bomb = bytes(30_000_000)
    for content in (zipped(("wanted", bomb)), tar(("wanted", bomb)), tar(("other", bomb), ("wanted", b"x"))):
        assert "unpack to far more: no data set does that" in refusal(write(tmp_path, content), tmp_path)
        assert sum(path.stat().st_size for path in (tmp_path / "scratch").iterdir()) < 10_000_000


def test_a_header_as_large_as_memory_is_refused(tmp_path: Path) -> None:
    info = tarfile.TarInfo("name")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 8_000_000_000  # which tarfile reads into memory whole
    content = gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + b"x" * 2_000_000)
    assert "a header of 8,000,000,000 bytes" in refusal(write(tmp_path, content), tmp_path)


def test_a_gzip_bomb_is_refused_before_it_unpacks() -> None:
    with pytest.raises(ValueError, match="more than"):
        gunzip(gzip.compress(bytes(10_000_000)), 1_000)
    assert gunzip(gzip.compress(b"x" * 1_000), 1_000) == b"x" * 1_000


@pytest.mark.parametrize("name", ["../../wanted", "/tmp/wanted"])
@pytest.mark.parametrize("pack", [tar, zipped])
def test_a_member_name_leads_nowhere(name: str, pack: Callable[..., bytes], tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    assert find(write(inside, pack((name, b"x"))), inside) == {"wanted": b"x"}
    assert {path.name for path in tmp_path.rglob("*")} == {"inside", "source", "scratch", "wanted"}
    assert [path.parent.name for path in tmp_path.rglob("wanted")] == ["scratch"]


def test_links_and_special_files_are_not_followed_out_of_an_archive(tmp_path: Path) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
            info = tarfile.TarInfo("wanted")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    assert find(write(tmp_path, content.getvalue()), tmp_path) == {}


def test_archives_within_archives_end(tmp_path: Path) -> None:
    inner = tar(("wanted", b"x"))
    for _ in range(5):
        inner = zipped(("inner.tgz", inner), ("x.zip", b"no archive"))
    assert find(write(tmp_path, inner), tmp_path, deep=2) == {}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"config.json": b"[" * 100_000, "model.safetensors": b"weights"}, "its config.json is no JSON object"),
        ({"config.json": b"{}", "pytorch_model.bin": b"pickle"}, "its weights are pickled"),
    ],
)
def test_a_model_of_a_stranger_is_refused(files: dict[str, bytes], said: str, tmp_path: Path) -> None:
    source = folder(tmp_path, {**files, "tokenizer.json": b"{}"})
    with pytest.raises(Refusal, match=f"{source}: {said}"):
        bert.read_model(source, tmp_path)
