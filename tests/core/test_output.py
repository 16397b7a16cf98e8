"""Where a command may write: regular files and free names, and nothing else is touched."""

import os
from pathlib import Path

import pytest

from runner.core.errors import RequestError
from runner.core.output import write_outputs

LINK = "it is a link, and links are not followed"
KINDS = {"fifo": "it is no regular file", "folder": "it is a folder", "link": LINK, "dangling": LINK}


def made(kind: str, folder: Path) -> Path:
    """Make something that is no regular file."""
    path = folder / kind
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(folder / "target")
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_regular_file_is_refused_and_stays_and_nothing_else_is_written(tmp_path: Path, kind: str) -> None:
    if kind == "link":
        (tmp_path / "target").write_text("kept")
    path = made(kind, tmp_path)
    before, there = path.lstat(), sorted(tmp_path.iterdir())
    with pytest.raises(RequestError, match=f"{kind}: cannot be written: {KINDS[kind]}"):
        write_outputs({tmp_path / "first": b"1", path: b"2"})
    after = path.lstat()
    assert (before.st_ino, before.st_mode, before.st_mtime_ns) == (after.st_ino, after.st_mode, after.st_mtime_ns)
    assert sorted(tmp_path.iterdir()) == there
    assert kind != "link" or (tmp_path / "target").read_text() == "kept"


def test_a_file_is_written_or_replaced_and_below_a_folder_its_folders_are_made(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("longer than before")
    write_outputs({tmp_path / "old": b"new", tmp_path / "a" / "b" / "c": b"new"}, below=tmp_path)
    assert [(tmp_path / name).read_text() for name in ("old", "a/b/c")] == ["new", "new"]


@pytest.mark.parametrize("inside", [True, False])
def test_below_a_folder_no_link_is_followed_wherever_it_leads(tmp_path: Path, *, inside: bool) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / ("root/other" if inside else "elsewhere")
    elsewhere.mkdir(parents=True)
    (root / "deep").mkdir(parents=True)
    (root / "deep" / "linked").symlink_to(elsewhere)
    with pytest.raises(RequestError, match="'linked' is a link, and links are not followed"):
        write_outputs({root / "first": b"", root / "deep" / "linked" / "new" / "file": b""}, below=root)
    assert list(elsewhere.iterdir()) == []
    assert not (root / "first").exists()
