"""A slow link between real containers passes at most the rate that was asked for."""

import re

import pytest

from tests.support.containers import left_of
from tests.support.launches import run_once
from tests.support.projects import Project

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("image")]
CELL = "network --layout 2x1 --only backend=gloo --on compose --device cpu --with cpus=2,1".split()
SMALL = "--set round_trips=20 --set messages=2 --set message_bytes=4000000".split()


def test_no_more_goes_through_a_link_than_was_asked_for(project: Project) -> None:
    link = "100mbit"
    done, record = run_once(project, *CELL, *SMALL, "--with", f"link={link}")
    assert done.code == 0, done.snapshot
    # 12.5 MB/s, and the bucket is full at first; busy cores send more slowly.
    assert 3e6 < record["metrics"]["bytes_per_second"] < 14e6
    assert record["launch"]["options"]["link"] == link
    assert left_of(project.runs("network")[-1]) == []
    rows = [line.split("|") for line in project.runner("summarize").stdout.splitlines() if f"| {link} |" in line]
    assert [(row[1].strip(), "2+1" in row[4]) for row in rows] == [("2x1", True)], rows
    text = (project.runs("network")[-1] / "request/compose.yaml").read_text()
    assert re.findall("cpus: .*", text) == ["cpus: 2.0", "cpus: 1.0"]
