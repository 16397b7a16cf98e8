"""An unedited script is observed on every target."""

import re

import pytest

from tests.contract.harness import Harness
from tests.contract.targets import on
from tests.support.odd import OBSERVED


@on("compose", "slurm", "ssh", "pytorchjob", "trainjob", "indexed")
def test_a_script_is_observed_and_left_alone_as_on_this_machine(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/of/the/caller")
    paths = []
    for words, steps in (((), 8), (("--no-observe",), None)):
        done, record = harness.run(OBSERVED, "--layout", "2x1", *words)
        assert done.code == 0, done.snapshot
        folder = harness.project.results / "observed" / record["launch"]["id"]
        assert {path.name for path in folder.iterdir()} == {"SHA256SUMS", "artifacts", "raw", "request", "run.json"}
        assert "observer" not in "".join(path.read_text() for path in folder.glob("request/*.[ys]*"))
        assert not record.get("doubts")
        for number, rank in enumerate(record["ranks"]):
            own, of_pod = (folder / "raw" / f"node{number}-{name}" for name in (f"rank{number}.stdout", "agent.log"))
            text = (own if own.exists() else of_pod).read_text()
            paths += re.findall(r"\bpath .*", text)
            assert (":::MLLOG" in text) == bool(steps)
            seen = rank.get("observed", {})
            assert (seen.get("steps"), seen.get("samples")) == (steps, steps and 40), text
            assert seen.get("groups") == (steps and [{"size": 2, "backend": "gloo", "count": 1}])
    assert len(set(paths)) == 1
    assert len(paths) == 4
