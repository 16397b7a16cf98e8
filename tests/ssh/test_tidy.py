"""Programs and data on a host are removed when no run has used them for 30 days, and never while one does."""

import fcntl
import os
import time
from pathlib import Path

import pytest

from runner.targets.ssh.on_host import beat, begin, tidy, use

NAME, RUN = "0123456789abcdef" * 4, "20261122T173354Z-ssh-e526dd70-node1"
BROUGHT = [f"programs/{NAME}", f"data/{NAME}", f"programs/{NAME}.77.tmp", f"runs/{RUN}", f"runs/ended-{RUN}"]
OTHERS = ["programs/mine", "data/none", "runs/mine", f"other/{NAME}"]


def made(base: Path, name: str, *, days: float) -> Path:
    folder = base / name
    (folder / "inner").mkdir(parents=True)
    then = time.time() - days * 86_400
    os.utime(folder, (then, then))
    return folder


@pytest.mark.parametrize(
    ("name", "days", "stays"),
    [*((name, 31, False) for name in BROUGHT), *((name, 29, True) for name in BROUGHT)]
    + [(name, 400, True) for name in OTHERS],
)
def test_only_what_the_kit_has_brought_long_ago_is_removed(tmp_path: Path, name: str, days: float, stays: bool) -> None:
    folder = made(tmp_path, name, days=days)
    tidy(str(tmp_path))
    assert list(folder.parent.rglob("inner")) == [folder / "inner"] * stays


def test_what_is_used_again_held_by_a_run_or_behind_a_link_is_kept(tmp_path: Path) -> None:
    again, held = made(tmp_path, f"data/{NAME}", days=31), made(tmp_path, f"programs/{NAME}", days=31)
    outside = made(tmp_path, "outside", days=31)
    (tmp_path / "data" / ("0" * 64)).symlink_to(outside)
    use(str(again))
    lock = os.open(held, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    tidy(str(tmp_path))
    assert held.is_dir()
    os.close(lock)
    tidy(str(tmp_path))
    assert not held.exists()
    assert (again / "inner").is_dir()
    assert (outside / "inner").is_dir()


def test_a_run_that_was_ended_before_it_began_does_not_begin(tmp_path: Path) -> None:
    base = str(tmp_path)
    assert not beat(base, RUN, stop=True)["folder"]
    with pytest.raises(OSError, match="ended before it began"):
        begin(base, RUN, str(tmp_path), base, [], 0, {})
    assert not (tmp_path / "runs" / RUN).exists()
