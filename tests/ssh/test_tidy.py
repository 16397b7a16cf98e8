"""What was brought to a host is removed there when no run has used it for 30 days, and never while one does."""

import fcntl
import os
import time
from pathlib import Path

import pytest

from runner.targets.ssh.host_tidy import tidy, used

NAME, RUN = "0123456789abcdef" * 4, "20261122T173354Z-ssh-e526dd70-node1"


def made(base: Path, name: str, *, days: float) -> Path:
    folder = base / name
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "file").touch()
    then = time.time() - days * 86_400
    os.utime(folder, (then, then))
    return folder


@pytest.mark.parametrize("name", [f"programs/{NAME}", f"data/{NAME}", f"programs/{NAME}.77.tmp", f"runs/{RUN}"])
def test_what_is_old_is_removed_and_what_is_young_is_kept(tmp_path: Path, name: str) -> None:
    old, young = made(tmp_path / "a", name, days=31), made(tmp_path / "b", name, days=29)
    tidy(str(tmp_path / "a"))
    tidy(str(tmp_path / "b"))
    assert not old.exists()
    assert list(old.parent.iterdir()) == []
    assert (young / "inner" / "file").is_file()


@pytest.mark.parametrize("name", ["mine", "programs/mine", "data/none", "runs/mine", f"other/{NAME}"])
def test_what_the_kit_has_not_brought_is_left_alone(tmp_path: Path, name: str) -> None:
    folder = made(tmp_path, name, days=400)
    tidy(str(tmp_path))
    assert (folder / "inner" / "file").is_file()


def test_what_is_used_again_or_held_by_a_run_is_kept_however_old_it_is(tmp_path: Path) -> None:
    again, held = made(tmp_path, f"data/{NAME}", days=31), made(tmp_path, f"programs/{NAME}", days=31)
    assert used(str(again))
    assert not used(str(tmp_path / "data" / "absent"))
    lock = os.open(held, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    tidy(str(tmp_path))
    assert held.is_dir()
    os.close(lock)
    tidy(str(tmp_path))
    assert not held.exists()
    assert (again / "inner" / "file").is_file()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    folder = made(tmp_path, "elsewhere", days=31)
    base = tmp_path / "base"
    (base / "data").mkdir(parents=True)
    (base / "data" / NAME).symlink_to(folder)
    tidy(str(base))
    assert (folder / "inner" / "file").is_file()
