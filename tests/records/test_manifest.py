"""The manifest of a run's folder: whatever is altered, added or removed is named."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.records import manifest
from runner.records.folder import RunFolder
from runner.records.parse import reparse
from tests.support.records import Make

ODD = ["a b", "q\"'", "é目", "back\\slash", "new\nline", "re\rturn", "-n", "#hash", " lead", os.fsdecode(b"\xff\xfe")]


def faults(folder: RunFolder) -> list[str]:
    return manifest.altered(folder.kept_manifest(), folder.path)


def test_any_flipped_bit_of_any_file_names_that_file(tmp_path: Path, make: Make) -> None:
    folder = make.run(tmp_path)
    names = list(folder.kept_manifest().entries)
    tried = 0
    for name in names:
        data = (folder.path / name).read_bytes()
        for place in {0, len(data) // 2, len(data) - 1} if data else ():
            (folder.path / name).write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            assert faults(folder) == [f"{name}: altered"]
            tried += 1
        (folder.path / name).unlink()
        assert faults(folder) == [f"{name}: removed"]
        (folder.path / name).write_bytes(data)
    assert tried > 5
    assert faults(folder) == []


def test_any_flipped_bit_of_the_manifest_itself_is_found(tmp_path: Path, make: Make) -> None:
    data = (make.run(tmp_path).path / manifest.NAME).read_bytes()
    for place in range(len(data)):
        for broken in (data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :], data[:place]):
            with pytest.raises(ValueError, match="altered or cut off"):
                manifest.read(broken)
    assert manifest.read(data).entries


def test_files_that_are_added_and_links_in_place_of_files_are_named(tmp_path: Path, make: Make) -> None:
    folder = make.run(tmp_path)
    (folder.path / "artifacts" / "latest").symlink_to("trace.json")  # a link holds nothing that is lost
    assert faults(folder) == []
    (folder.path / "raw" / "extra").write_text("x")
    (folder.path / "run.json").rename(tmp_path / "copy")
    (folder.path / "run.json").symlink_to(tmp_path / "copy")
    (folder.path / "raw" / "outcome.json").unlink()
    os.mkfifo(folder.path / "raw" / "outcome.json")
    wrong = dict(fault.split(": ") for fault in faults(folder))
    words = {"raw/extra": "added", "raw/outcome.json": "special file", "run.json": "link"}
    assert all(word in wrong[name] for name, word in words.items())
    assert wrong.keys() == words.keys()


def test_names_of_any_kind_are_kept_as_sha256sum_keeps_them(tmp_path: Path) -> None:
    for name in ODD:
        (tmp_path / name).write_text(name, "utf-8", "surrogateescape")
    text = manifest.write(manifest.make(tmp_path))
    (tmp_path / manifest.NAME).write_bytes(text)
    assert set(manifest.read(text).entries) == set(ODD)
    assert manifest.altered(manifest.read(text), tmp_path) == []
    subprocess.run(["sha256sum", "--strict", "-c", manifest.NAME], cwd=tmp_path, capture_output=True, check=True)


@given(st.binary(max_size=300))
def test_no_bytes_make_reading_a_manifest_fail_in_another_way(data: bytes) -> None:
    try:
        manifest.read(data)
    except ValueError as error:
        assert "altered or cut off" in str(error)


def test_collecting_again_lets_the_manifest_follow_and_hides_no_alteration(tmp_path: Path, make: Make) -> None:
    folder = make.run(tmp_path)
    record = folder.path / "run.json"
    record.write_bytes(record.read_bytes().replace(b"completed", b"failed"))
    (folder.path / "artifacts" / "notes").write_text("added later")
    before = faults(folder)
    assert [fault.split(":")[0] for fault in before] == ["artifacts/notes", "run.json"]
    reparse(folder.path)
    assert faults(folder) == before[:1]
    assert "run.json was written again by runner collect, from the raw files" in folder.kept_manifest().said
