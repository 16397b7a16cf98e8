"""Commands write only regular files and new names."""

import os
from pathlib import Path

import pytest

from runner.core.errors import RequestError
from runner.core.output import write_outputs


@pytest.mark.parametrize("kind", ["fifo", "folder", "link", "dangling"])
def test_what_is_no_regular_file_is_refused_and_stays_and_nothing_else_is_written(tmp_path: Path, kind: str) -> None:
    path, target = tmp_path / kind, tmp_path / "target"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(target)
    if kind == "link":
        target.write_text("kept")
    before = [(file, file.lstat()) for file in tmp_path.iterdir()]
    with pytest.raises(RequestError, match=f"{kind}.*: cannot be written: "):
        write_outputs({tmp_path / "first": b"1", path: b"2"})
    assert [(file, file.lstat()) for file in tmp_path.iterdir()] == before


def test_a_file_is_written_or_replaced_and_below_a_folder_its_folders_are_made(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("longer than before")
    write_outputs({tmp_path / "old": b"new", tmp_path / "a" / "b" / "c": b"new"}, below=tmp_path)
    assert [(tmp_path / name).read_text() for name in ("old", "a/b/c")] == ["new", "new"]
    with pytest.raises(RequestError, match="folder"):
        write_outputs({tmp_path / "missing" / "file": b""})


@pytest.mark.parametrize("inside", [True, False])
def test_below_a_folder_no_link_is_followed_wherever_it_leads(tmp_path: Path, *, inside: bool) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / ("root/other" if inside else "elsewhere")
    elsewhere.mkdir(parents=True)
    (root / "deep").mkdir(parents=True)
    (root / "deep" / "linked").symlink_to(elsewhere)
    with pytest.raises(RequestError, match="'linked' is a link"):
        write_outputs({root / "first": b"", root / "deep" / "linked" / "new" / "file": b""}, below=root)
    assert [*elsewhere.iterdir()] == []
    assert not (root / "first").exists()
