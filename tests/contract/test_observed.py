"""An unedited script is observed on every target."""

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
            lines = text.replace("[default0]:", "").splitlines()  # torchrun's prefix in a pod's log
            paths += [line for line in lines if line.startswith("path ")]
            assert any(line.startswith(":::MLLOG") for line in lines) == bool(steps)
            if steps:
                seen = rank["observed"]
                assert (seen["steps"], seen.get("samples")) == (8, 40), (seen, text)
                assert seen["groups"] == [{"size": 2, "backend": "gloo", "count": 1}]
            else:
                assert "observed" not in rank
    assert len(set(paths)) == 1
    assert len(paths) == 4
