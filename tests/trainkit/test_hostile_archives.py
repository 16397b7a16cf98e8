"""Untrusted archives and data folders: refused in one line, within bounds, and never unpacked elsewhere."""

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


def find(tmp_path: Path, content: bytes, deep: int = 0) -> dict[str, bytes]:
    source, scratch = tmp_path / "source", tmp_path / "scratch"
    source.write_bytes(content)
    scratch.mkdir(exist_ok=True)
    found = find_files(source, scratch, lambda name: name if name == "wanted" else None, deep)
    return {name: path.read_bytes() for name, path in found.items()}


def refusal(tmp_path: Path, content: bytes) -> str:
    with pytest.raises(Refusal) as refused:
        find(tmp_path, content)
    said = refused.value.line
    assert said.startswith(str(tmp_path))
    assert said.isprintable()
    return said


@settings(max_examples=300, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(
    st.sampled_from(PACKED), st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=8)), max_size=4), st.floats(0, 1)
)
def test_any_damage_to_an_archive_is_refused(
    tmp_path: Path, packed: bytes, damage: list[tuple[float, bytes]], cut: float
) -> None:
    data = bytearray(packed)
    for share, piece in damage:
        place = int(share * (len(data) - 1))
        data[place : place + len(piece)] = piece
    try:
        find(tmp_path, data[: math.ceil(len(data) * cut)])
    except Refusal as refused:
        assert refused.line.isprintable()


def test_a_zip_member_with_a_false_size_is_refused(tmp_path: Path) -> None:
    for declared in (5, 2**31):
        whole = bytearray(zipped(("wanted", bytes(range(256)) * 40)))
        for offset in (whole.index(b"PK\x03\x04") + 22, whole.index(b"PK\x01\x02") + 24):
            whole[offset : offset + 4] = struct.pack("<I", declared)
        assert "wanted" in refusal(tmp_path, whole)


def test_a_decompression_bomb_is_refused_before_it_unpacks(tmp_path: Path) -> None:
    bomb = bytes(30_000_000)
    for content in (zipped(("wanted", bomb)), tar(("wanted", bomb)), tar(("other", bomb), ("wanted", b"x"))):
        assert "unpack to far more" in refusal(tmp_path, content)
        assert sum(path.stat().st_size for path in (tmp_path / "scratch").iterdir()) < 10_000_000


def test_a_header_as_large_as_memory_is_refused(tmp_path: Path) -> None:
    info = tarfile.TarInfo("name")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 8_000_000_000  # tarfile would read it into memory
    content = gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + b"x" * 2_000_000)
    assert "8,000,000,000" in refusal(tmp_path, content)


def test_a_gzip_bomb_is_refused_before_it_unpacks() -> None:
    with pytest.raises(ValueError, match="more than"):
        gunzip(gzip.compress(bytes(10_000_000)), 1_000)
    assert gunzip(gzip.compress(b"x" * 1_000), 1_000) == b"x" * 1_000


@pytest.mark.parametrize(("name", "pack"), [("../../wanted", tar), ("/tmp/wanted", zipped)])
def test_a_member_name_never_leads_outside(name: str, pack: Callable[..., bytes], tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    assert find(inside, pack((name, b"x"))) == {"wanted": b"x"}
    assert [path.parent.name for path in tmp_path.rglob("wanted")] == ["scratch"]


def test_links_and_special_files_in_an_archive_are_ignored(tmp_path: Path) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
            info = tarfile.TarInfo("wanted")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    assert find(tmp_path, content.getvalue()) == {}


def test_nested_archives_are_searched_to_a_limit(tmp_path: Path) -> None:
    inner = tar(("wanted", b"x"))
    for _ in range(5):
        inner = zipped(("inner.tgz", inner), ("x.zip", b"no archive"))
    assert find(tmp_path, inner, deep=2) == {}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"config.json": b"[" * 100_000, "model.safetensors": b"weights"}, "config.json"),
        ({"config.json": b"{}", "pytorch_model.bin": b"pickle"}, "pickled"),
    ],
)
def test_an_unsafe_model_is_refused(files: dict[str, bytes], said: str, tmp_path: Path) -> None:
    source = folder(tmp_path, {**files, "tokenizer.json": b"{}"})
    with pytest.raises(Refusal, match=f"{source}: .*{said}"):
        bert.read_model(source, tmp_path)
