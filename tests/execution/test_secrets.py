"""A secret of a run reaches its processes, and stands nowhere in its record, its table or its bundle."""

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from tests.support.launches import BEGINNING, END, one_run
from tests.support.projects import Project
from tests.support.repository import commit_all

PLANTED = "correct-horse-9"
QUOTED = """it's a "p\u00e4ss: wörd" $9 #1"""
FORM = "h" + "f_" + "aB3dE6gH9jK2mN5pQ8sT1vW4xZ7cF0" + "yLrU"
TAKES = """
import argparse
import hashlib
parser = argparse.ArgumentParser()
parser.add_argument("--hf-token", default="")
parser.add_argument("--source", default="")
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()
print("got", hashlib.sha256(args.hf_token.encode()).hexdigest(), flush=True)
print("the token is", args.hf_token, "of", args.source, flush=True)
"""
SAYS_ARGS = "log.point('facts', args=vars(args))\n"
FAILS = "raise ValueError('cannot log in with ' + args.hf_token)\n"


def holding(folder: Path, value: str) -> list[str]:
    """Name the files below a folder that hold a value, as it is or as JSON writes it."""
    forms = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], value.replace("'", "''")}
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and any(form.encode() in path.read_bytes() for form in forms)
    )


def sha256(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()


@pytest.mark.parametrize("ending", [END, FAILS], ids=["completes", "fails"])
def test_a_secret_arg_stands_nowhere_in_the_record_and_reaches_the_process(project: Project, ending: str) -> None:
    value, url = QUOTED, "s3://ada" + ":hunter2@store.example.org/x"
    one_run(project, BEGINNING + TAKES + ending, "1x2", args={"hf_token": value, "source": url, "seed": 3})
    done = project.runner("run", "tiny")
    (run,) = project.runs()
    # torchrun ends a rank as soon as another has failed, maybe before it has printed: one of them has printed it all.
    printed = [(run / "raw" / f"node0-rank{rank}.stdout").read_text("utf-8") for rank in (0, 1)]
    assert any(f"got {sha256(value)}" in text for text in printed)
    assert any(value in text for text in printed)  # what the process itself prints is kept as it is: the test can fail
    assert [name for name in holding(run, value) if not name.startswith("raw/")] == []
    assert [name for name in holding(run, "hunter2") if not name.startswith("raw/")] == []
    launch = project.record()["launch"]
    masked_url = "s3://ada:<masked>@store.example.org/x"
    assert launch["args"] == {"hf_token": "<masked>", "source": masked_url, "seed": 3}
    assert launch["argv"][0][-6:] == ["--hf-token", "<masked>", "--source", masked_url, "--seed", "3"]
    assert "args.hf_token" in launch["masked"]
    assert "masked in the record: args.hf_token" in done.stderr
    # Parsed again, the value is not known any more.
    assert project.runner("collect", run).code == 0
    assert [name for name in holding(run, value) if not name.startswith("raw/")] == []
    assert value not in project.runner("summarize").stdout
    assert project.runner("verify", run, "--level", "0").code == 0
    if ending == FAILS:
        assert "runner run tiny --set hf_token=..." in project.refused("resume", run)


def test_a_node_by_hand_that_fails_masks_its_secrets_too_and_says_its_last_words(project: Project) -> None:
    one_run(project, BEGINNING + TAKES + FAILS, "1x1", args={"seed": 3})
    project.results.mkdir(exist_ok=True)
    done = project.runner("node", "tiny", "--device", "cpu", "--layout", "1x1", "--", "--hf-token", PLANTED)
    assert done.code == 1, done.snapshot
    (run,) = project.runs()
    assert project.runner("collect", run).code == 0
    assert f"got {sha256(PLANTED)}" in (run / "raw" / "node0-rank0.stdout").read_text("utf-8")
    record = project.record(run)
    assert record["launch"]["masked"] == ["args.hf_token"]
    assert (record["status"], record["reason"]) == ("failed", "rank 0 (node 0) exited with 1")
    assert "cannot log in with" in done.stderr
    assert [name for name in holding(run, PLANTED) if not name.startswith("raw/node0-")] == []


@pytest.mark.slow
def test_no_bundle_holds_a_secret_and_the_record_is_not_run_again(project: Project, tmp_path: Path) -> None:
    one_run(project, BEGINNING + TAKES + SAYS_ARGS + END, "1x1", args={"hf_token": PLANTED})
    (project.root / ".gitignore").write_text("results/\n__pycache__/\n*.tar\n")
    (project.root / "note.txt").write_text(f"the key is {FORM}\n")
    commit_all(project.root)
    (project.root / "note.txt").write_text(f"the key is {FORM}, and {FORM}!\n")
    assert project.runner("run", "tiny").code == 0
    (run,) = project.runs()
    assert [name for name in holding(run, FORM) if not name.startswith("raw/")] == []
    assert "request/code.diff" in project.record()["launch"]["masked"]
    done = project.runner("bundle", "results", "-o", "kit.tar")
    assert done.code == 0, done.snapshot
    with tarfile.open(project.root / "kit.tar") as tar:
        tar.extractall(tmp_path / "out", filter="data")
    assert holding(tmp_path / "out", PLANTED) == []
    assert holding(tmp_path / "out", FORM) == []
    assert "raw/node0-rank0.stdout: the run has secret args" in done.stderr
    assert "note.txt: a secret in it is masked" in done.stderr
    shown = project.runner("verify", "kit.tar", "--level", "0")
    assert shown.code == 0, shown.snapshot
    again = project.runner("reproduce", run)
    assert again.code == 2, again.snapshot
    assert "the record holds no value of args.hf_token: masked as a secret" in again.stderr
    checked = project.runner("verify", run)
    assert "args: not checked: the record holds no value of args.hf_token" in checked.stdout


def test_a_run_with_a_secret_in_its_definition_only_is_started_again(project: Project) -> None:
    fails = "import pathlib\nif not pathlib.Path('fixed').exists(): raise ValueError('not yet')\n"
    one_run(project, BEGINNING + TAKES + fails + END, "1x1", summary=f"Why not {FORM}?", args={"seed": 3})
    assert project.runner("run", "tiny").code == 1
    (run,) = project.runs()
    assert project.record()["launch"]["masked"] == ["definition.summary"]
    assert holding(run, FORM) == []
    (project.root / "fixed").touch()
    done = project.runner("resume", run)
    assert done.code == 0, done.snapshot
    assert project.record(run)["launch"]["masked"] == ["definition.summary"]
    assert holding(run, FORM) == []
