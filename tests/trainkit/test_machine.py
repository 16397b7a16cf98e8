"""The machine that a process is on: its quotas."""

import os
from pathlib import Path

import pytest

from trainkit.machine import usable_cores

ALL = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("outer", "inner", "cores"),
    [("max 100000", "50000 100000", 0.5), ("50000 100000", "max 100000", 0.5), ("odd", "", ALL)],
)
def test_the_smallest_quota_of_all_groups_limits_cores(tmp_path: Path, outer: str, inner: str, cores: float) -> None:
    own, cgroups = tmp_path / "cgroup", tmp_path / "fs"
    (cgroups / "outer" / "inner").mkdir(parents=True)
    own.write_text("1:name=systemd:/x\n0::/outer/inner\n")
    (cgroups / "outer" / "cpu.max").write_text(f"{outer}\n")
    (cgroups / "outer" / "inner" / "cpu.max").write_text(f"{inner}\n")
    assert usable_cores(own, cgroups) == cores
    assert usable_cores(tmp_path / "none", tmp_path / "none") == ALL
