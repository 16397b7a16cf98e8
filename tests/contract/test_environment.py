"""Environment variables and secrets reach the processes of every target; a secret is kept nowhere."""

import re

import pytest

from runner.core.secrets import MASK
from tests.contract.harness import Harness
from tests.contract.targets import on
from tests.support.launches import printed

SECRET = "hf_0123456789abcdef"  # noqa: S105


@on("local", "compose", "pytorchjob", "indexed", "ssh", "slurm", soon=True)
def test_variables_reach_every_rank_and_a_secret_is_kept_nowhere(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    words = harness.secret("HF_TOKEN", SECRET)
    flag = "a$b ${HOME} 'c"
    done, record = harness.run("odd-tells", "--layout", "2x1", "--env", f"MY_FLAG={flag}", "--env", "HF_TOKEN", *words)
    assert done.code == 0, done.snapshot
    args = record["launch"]["args"]
    assert (args["env.MY_FLAG"], args["env.HF_TOKEN"]) == (flag, MASK)
    run = harness.project.results / "odd-tells" / record["launch"]["id"]
    for rank in (0, 1):
        assert re.search(rf"told \[{re.escape(flag)}\] and {len(SECRET)} letters by rank {rank}", printed(run).decode())
    assert not [path for path in run.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@on("pytorchjob")
def test_a_secret_that_the_namespace_lacks_is_refused_before_anything_is_created(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    words = ["run", "odd-tells", "--layout", "2x1", *harness.words, "--device", "cpu", "--env", "HF_TOKEN"]
    assert "--with secret=NAME" in harness.project.refused(*words)
    assert "kubectl create secret" in harness.project.refused(*words, "--with", "secret=absent")
