"""The script that slows a link down reports its failures."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runner.targets.compose import shape
from runner.targets.compose.link import words_of

SHAPE = [sys.executable, "-I", "-c", Path(shape.__file__).read_text("utf-8")]
MAY_NOT = os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "ip", "tc")))
pytestmark = pytest.mark.skipif(MAY_NOT, reason="only root may make a network, with ip and tc")


def test_a_container_without_a_network_or_a_right_says_so() -> None:
    alone = subprocess.run(["unshare", "--net", *SHAPE, *words_of(10**9)], capture_output=True, text=True, check=False)
    assert (alone.returncode, alone.stderr) == (1, "there is no interface eth0\n")
