"""`runner verify` names the level that a record reaches, and what stopped the next."""

from pathlib import Path

import pytest

from tests.support.projects import Project
from tests.support.records import Make
from tests.tools.proof.conftest import committed, one_run, ran, refused, verdict_of


@pytest.fixture
def run(project: Project) -> Path:
    """Run a committed project."""
    committed(project)
    return one_run(project)


def test_a_run_reaches_level_1_until_a_byte_is_altered(project: Project, run: Path) -> None:
    assert verdict_of(project, "verify", run)["level"] == 1
    assert ran(project, "collect", run).stderr == ""
    with (run / "raw" / "node0-rank0.stdout").open("ab") as file:
        file.write(b"\n")
    assert verdict_of(project, "verify", run, code=1)["level"] is None
    assert "  level 0: raw/node0-rank0.stdout: altered" in ran(project, "verify", "results", code=1).stdout


def test_a_manifest_that_was_made_later_is_no_silent_proof(project: Project, run: Path) -> None:
    (run / "SHA256SUMS").unlink()
    assert "no manifest: " in verdict_of(project, "verify", run, code=1)["stopped"][0]
    path = run / "raw" / "node0-rank0.stdout"
    path.write_bytes(path.read_bytes().replace(b'"train_seconds": 1.0', b'"train_seconds": 0.5'))
    assert "SHA256SUMS is new" in ran(project, "collect", run).stderr
    for level in ("0", "1"):
        verdict = verdict_of(project, "verify", "results", "--level", level)
        assert (verdict["checks"][0]["name"], verdict["checks"][0]["same"]) == ("manifest", None)
        assert "run.json was written again" in verdict["notes"][0]


def test_what_is_no_run_is_refused_and_a_run_that_does_not_hold_is_counted(project: Project, make: Make) -> None:
    for word in ("nowhere", "experiments"):
        refused(project, word, "verify", word, code=2)
    for _ in range(2):
        run = make.run(project.results).path
    (run / "SHA256SUMS").unlink()
    assert "1 of 2 runs reach level 0" in ran(project, "verify", "results", "--level", "0", code=1).stdout
