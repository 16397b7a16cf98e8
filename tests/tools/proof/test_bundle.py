"""`runner bundle` always writes the same bytes, and any change in them is found."""

import errno
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from runner.core.errors import RequestError, RunError
from runner.records.unpacking import opened, unpack
from runner.tools.proof.bundle import Bundle, pack, write_bundle
from tests.support.projects import Project
from tests.support.records import Make
from tests.tools.proof.conftest import ran, refused


def test_made_twice_it_has_the_same_bytes(bundled: Project, tmp_path: Path) -> None:
    ran(bundled, "bundle", "results", "-o", tmp_path / "again.tar", env={"TZ": "Asia/Tokyo", "LC_ALL": "C"})
    assert (tmp_path / "again.tar").read_bytes() == (bundled.root / "kit.tar").read_bytes()


def test_one_without_code_goes_with_the_clone_in_which_it_lies(bundled: Project, tmp_path: Path) -> None:
    kit = tmp_path / "kit.tar"
    ran(bundled, "bundle", "results", "--no-code", "-o", kit)
    words = ("reproduce", kit, "--yes", "--run", bundled.runs()[0].name, "--results", tmp_path / "again")
    ran(bundled, *words)
    assert "git repository" in ran(Project(tmp_path, bundled.env), *words, code=1).stdout


def test_it_holds_what_a_reviewer_needs_and_is_read_without_unpacking_it(bundled: Project, tmp_path: Path) -> None:
    with tarfile.open(bundled.root / "kit.tar") as tar:
        names = {re.sub("[0-9a-f]{40}|[^/]*-local-[^/]*", "*", name) for name in tar.getnames()}
    code = "LICENSE requirements.lock experiments/tiny.yaml experiments/toys/ok.py"
    run = "run.json raw/node0-rank1.stdout request/launch.json request/request.json SHA256SUMS"
    parts = {"": "README.md SHA256SUMS table.md table.json", "project/*/": code, "results/tiny/*/": run}
    assert {f"kit/{part}{name}" for part, held in parts.items() for name in held.split()} <= names
    assert "kit/project/*/link" not in names
    elsewhere = Project(tmp_path, bundled.env)
    assert ran(elsewhere, "verify", bundled.root / "kit.tar").stdout.count(": level 1: ") == 3
    assert "| 1x2 |" in ran(elsewhere, "summarize", bundled.root / "kit.tar").stdout
    assert [*tmp_path.iterdir()] == []


def test_a_flipped_bit_in_any_file_of_it_names_the_file_and_one_that_is_cut_off_is_found(
    bundled: Project, tmp_path: Path
) -> None:
    data, kit = (bundled.root / "kit.tar").read_bytes(), tmp_path / "kit.tar"
    with tarfile.open(bundled.root / "kit.tar") as tar:
        places = {file.name: file.offset_data + file.size // 2 for file in tar if file.size}
    assert len(places) > 20
    for name, place in places.items():
        kit.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with opened(kit) as archive:
            assert archive.faults[0].startswith(f"{name.removeprefix('kit/')}: "), name
    for size in (len(data), len(data) // 2, 0):
        kit.write_bytes(kit.read_bytes()[:size])
        ended = ran(bundled, "verify", kit, code=1)
        assert "no level" in ended.stdout + ended.stderr


def test_a_file_that_is_no_archive_is_a_wrong_request(project: Project) -> None:
    for command in ("summarize", "verify", "reproduce"):
        assert "neither a folder nor an archive" in project.refused(command, "experiments/tiny.yaml")


@pytest.mark.parametrize(
    ("name", "fields", "says"),
    [
        ("../evil", {}, "kit/"),
        ("kit/link", {"type": tarfile.SYMTYPE, "linkname": "/etc"}, "regular file"),
        ("kit/pipe", {"type": tarfile.FIFOTYPE}, "regular file"),
        ("kit/project/.GIT/config", {}, "repository"),
        ("kit/big", {"pax_headers": {"size": str(10**15)}}, "more bytes"),
        ("kit/bomb", {"pax_headers": {"GNU.sparse.size": str(10**15), "GNU.sparse.map": "0,1"}}, ""),
        ("kit/long", {"pax_headers": {"comment": "x" * 10_000_000}}, "header"),
    ],
)
def test_one_from_a_stranger_writes_nothing_outside_and_is_refused_in_one_line(
    name: str, fields: dict[str, Any], says: str, project: Project, tmp_path: Path
) -> None:
    with tarfile.open(tmp_path / "evil.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(tarfile.TarInfo("kit/first"))
        member = tarfile.TarInfo(name)
        for field, value in fields.items():
            setattr(member, field, value)
        tar.addfile(member)
    before = project.written()
    for command in ("verify", "summarize", "report"):
        refused(project, f"evil.tar: no level: {says and '.*'}{says}", command, tmp_path / "evil.tar")
    assert project.written() == before
    assert {path.name for path in tmp_path.iterdir()} == {"evil.tar", project.root.name}


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_headers_within_headers_are_one_line(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("kit/x")
    info.type, info.size = kind, 10
    header = info.tobuf(tarfile.USTAR_FORMAT) + b"10 path=x\n".ljust(512, b"\0")
    (tmp_path / "evil.tar").write_bytes(header * 2_000 + bytes(1_024))
    with pytest.raises(RunError, match="no level"):
        unpack(tmp_path / "evil.tar", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_files_with_any_name_go_through_it(tmp_path: Path) -> None:
    source = tmp_path / "source"
    longest = "/".join(["1" * 255] * 12)
    for name in ("é目 'x'.txt", "n" * 200, "d/" * 20 + "e", os.fsdecode(b"\xff\xfe"), "new\nline", "#1 %20", longest):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name, "utf-8", "surrogateescape")
    with (tmp_path / "kit.tar").open("wb") as stream:
        pack(source, stream)
    unpack(tmp_path / "kit.tar", tmp_path / "out")
    subprocess.run(["diff", "-r", source, tmp_path / "out" / "kit"], check=True)


def test_a_disk_that_is_full_before_the_archive_is_written_is_one_line(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/kit/run.json")  # a name only
    make.run(tmp_path / "results")
    monkeypatch.setattr(Bundle, "fill", Mock(side_effect=full))
    with pytest.raises(RequestError, match=r"kit.tar: .*: No space left on device \(/tmp/"):
        write_bundle(tmp_path / "results", tmp_path, tmp_path / "kit.tar", print)
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


def test_an_altered_record_is_not_bundled_and_one_without_a_commit_goes_without_code(
    finished: Project, tmp_path: Path
) -> None:
    results = shutil.copytree(finished.results, tmp_path / "results")
    words = ("bundle", results, "-o", tmp_path / "kit.tar")
    assert "the record names no commit" in ran(finished, *words).stderr
    (tmp_path / "kit.tar").unlink()
    raw = next(results.glob("tiny/*/raw/node0-rank0.stdout"))
    raw.write_bytes(raw.read_bytes() + b"\n")
    refused(finished, "raw/node0-rank0.stdout: altered", *words)
    assert [*tmp_path.iterdir()] == [results]
