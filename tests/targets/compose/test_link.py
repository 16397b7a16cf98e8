"""The script that slows a link down reports its failures."""

import os
import sys

import pytest

from runner.targets.compose import shape
from runner.targets.compose.link import words_of
from tests.support.projects import complete


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a network")
def test_a_container_without_a_network_says_so() -> None:
    done = complete(["unshare", "--net", sys.executable, "-I", shape.__file__, *words_of(10**9)])
    assert (done.code, done.stderr) == (1, "there is no interface eth0\n")
