"""The manifest of a run's folder: whatever is altered, added or removed is named."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from runner.records import manifest
from runner.records.folder import RunFolder
from runner.records.parse import reparse
from tests.support.records import Make

ODD = ["a b", "q\"'", "é目", "back\\slash", "new\nline", "re\rturn", "-n", "#hash", " lead", os.fsdecode(b"\xff\xfe")]


def faults(folder: RunFolder) -> list[str]:
    return manifest.altered(folder.kept_manifest(), folder.path)


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def test_any_flipped_bit_of_any_file_names_that_file(tmp_path: Path, make: Make) -> None:
    folder = make.run(tmp_path)
    for name in folder.kept_manifest().entries:
        path = folder.path / name
        data = path.read_bytes()
        for place in {0, len(data) // 2, len(data) - 1}:
            path.write_bytes(flipped(data, place))
            assert faults(folder) == [f"{name}: altered"]
        path.unlink()
        assert faults(folder) == [f"{name}: removed"]
        path.write_bytes(data)
    assert faults(folder) == []


def test_any_flipped_bit_of_the_manifest_itself_is_found(tmp_path: Path, make: Make) -> None:
    data = (make.run(tmp_path).path / manifest.NAME).read_bytes()
    for place in range(len(data)):
        for broken in (flipped(data, place), data[:place]):
            with pytest.raises(ValueError, match="altered or cut off"):
                manifest.read(broken)
    assert manifest.read(data).entries


def test_added_files_and_links_in_place_of_files_are_named(tmp_path: Path, make: Make) -> None:
    folder = make.run(tmp_path)
    (folder.path / "artifacts" / "latest").symlink_to("trace.json")  # a link holds nothing that is lost
    assert faults(folder) == []
    (folder.raw / "extra").write_text("x")
    (folder.path / "run.json").rename(tmp_path / "copy")
    (folder.path / "run.json").symlink_to(tmp_path / "copy")
    (folder.raw / "outcome.json").unlink()
    os.mkfifo(folder.raw / "outcome.json")
    wrong = ";".join(faults(folder))
    assert re.fullmatch("raw/extra: added[^;]*;raw/outcome.json: [^;]*special[^;]*;run.json: [^;]*link", wrong), wrong


def test_odd_names_are_escaped_as_sha256sum_does(tmp_path: Path) -> None:
    for name in ODD:
        (tmp_path / name).touch()
    text = manifest.write(manifest.make(tmp_path))
    (tmp_path / manifest.NAME).write_bytes(text)
    assert set(manifest.read(text).entries) == set(ODD)
    subprocess.run(["sha256sum", "--strict", "-c", manifest.NAME], cwd=tmp_path, capture_output=True, check=True)


def test_parsing_again_updates_the_manifest_and_hides_no_alteration(tmp_path: Path, make: Make) -> None:
    folder = make.run(tmp_path)
    (folder.path / "run.json").write_bytes(b"{}")
    (folder.path / "artifacts" / "notes").write_text("added later")
    added, altered = faults(folder)
    assert (added.partition(":")[0], altered) == ("artifacts/notes", "run.json: altered")
    reparse(folder.path)
    assert faults(folder) == [added]
    assert any("runner collect" in comment for comment in folder.kept_manifest().said)
