"""Secrets are refused as arguments before anything starts, and those of the environment are masked in results."""

import tarfile
from pathlib import Path

import pytest

from tests.support.launches import BEGINNING, END, one_run
from tests.support.projects import Project
from tests.support.repository import commit_all

PLANTED = "correct-horse-9"
TAKES = """
import argparse, os, torch
from trainkit import process_facts
log.point("facts", **process_facts.of_process(torch.device("cpu"), "toys.ok"))
parser = argparse.ArgumentParser()
parser.add_argument("--hf-token", default="")
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()
token = os.environ["HF_TOKEN"]
log.point("dataset", f"with {token}", note=f"with {token}")
print("the token is", token, len(token), flush=True)
"""
FAILS = "raise ValueError('cannot log in with ' + token)\n"
SCRIPT = "import argparse\nimport torch\np = argparse.ArgumentParser()\np.add_argument('--hf-token')\np.parse_args()\n"


def holding(folder: Path, value: str = PLANTED) -> list[str]:
    """Return the files below a folder that contain a value."""
    found = (path for path in folder.rglob("*") if path.is_file() and ".git/" not in str(path))
    return sorted(str(path.relative_to(folder)) for path in found if value.encode() in path.read_bytes())


@pytest.mark.parametrize(
    "words",
    [
        ("run", "train.py", "--", "--hf-token", PLANTED),
        ("run", "train.py", "--set", f"hf_token={PLANTED}"),
        ("run", "train.py", f"--hf-token={PLANTED}"),
        ("run", "tiny", "--set", f"hf_token={PLANTED}"),
        ("init", "train.py", "--no-try", "--set", f"hf_token={PLANTED}"),
        ("check", "train.py", "--", "--hf-token", PLANTED),
        ("plan", "tiny", "--set", f"hfToken={PLANTED}"),
        ("node", "tiny", "--", f"--hf-token={PLANTED}"),
    ],
    ids=" ".join,
)
def test_every_command_refuses_one_before_anything_is_printed_or_kept(project: Project, words: tuple[str, ...]) -> None:
    one_run(project, BEGINNING + TAKES + END, "1x1", args={"seed": 3})
    (project.root / "train.py").write_text(SCRIPT)
    done = project.runner(*words)
    assert done.code == 2, done.snapshot
    assert "environment" in done.stderr
    assert "token" in done.stderr.lower()
    assert PLANTED not in done.stdout + done.stderr
    assert not project.results.exists()
    assert holding(project.root) == []


def test_a_definition_or_a_batch_script_with_one_is_refused(project: Project) -> None:
    one_run(project, BEGINNING + TAKES + END, "1x1", args={"seed": 3, "hf_token": PLANTED})
    (project.root / "job.sbatch").write_text(f"#!/bin/bash\nsrun python train.py --hf_token {PLANTED}\n")
    for place, words in (("tiny.yaml:", ("plan", "tiny")), ("", ("collect", "job.sbatch"))):
        refused = project.refused(*words)
        assert place in refused
        assert "hf_token" in refused
        assert PLANTED not in refused


@pytest.mark.parametrize("ending", [END, FAILS], ids=["completes", "fails"])
def test_one_of_the_environment_reaches_the_process_and_stands_nowhere_in_the_run(
    project: Project, ending: str
) -> None:
    one_run(project, BEGINNING + TAKES + ending, "1x1", args={"seed": 3})
    done = project.runner("run", "tiny", env={"HF_TOKEN": PLANTED, "NCCL_DEBUG": "public-value"})
    assert done.code == (0 if ending == END else 1), done.snapshot
    (run,) = project.runs()
    printed = (run / "raw" / "node0-rank0.stdout").read_text("utf-8")
    assert f"the token is <masked> {len(PLANTED)}" in printed
    assert holding(run) == []
    assert holding(run, "public-value")  # what may be kept is
    assert '"with <masked>"' in printed
    assert "masked" not in project.record()["launch"]
    if ending == FAILS:
        assert "cannot log in with <masked>" in project.record()["failure"]["cause"]
    assert PLANTED not in done.stdout + done.stderr


def test_the_log_of_a_defect_has_none(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from runner.cli.exit import explain

    monkeypatch.setenv("HF_TOKEN", PLANTED)
    monkeypatch.setattr("sys.argv", ["runner", "run", "tiny", "--set", f"api_key={PLANTED}-2"])
    assert explain(ZeroDivisionError(f"no {PLANTED}")) == 3
    said = capsys.readouterr().err
    log = Path(said.rpartition(" ")[2].strip())
    text = log.read_text("utf-8")
    log.unlink()
    assert "ZeroDivisionError" in text
    assert PLANTED not in said + text


@pytest.mark.slow
def test_no_bundle_holds_a_secret(project: Project, tmp_path: Path) -> None:
    one_run(project, BEGINNING + TAKES + END, "1x1", args={"seed": 3})
    note = project.root / "note.yaml"
    note.with_name(".gitignore").write_text("results/\n__pycache__/\n*.tar\n")
    note.write_text(f"password: {PLANTED}\n")
    commit_all(project.root)
    note.write_text(f"password: {PLANTED}\n\n")
    assert project.runner("run", "tiny", env={"HF_TOKEN": PLANTED}).code == 0
    (run,) = project.runs()
    assert holding(run) == []
    assert project.record()["launch"]["masked"] == ["request/code.diff"]
    done = project.runner("bundle", "results", "-o", "kit.tar", env={"HF_TOKEN": PLANTED})
    assert done.code == 0, done.snapshot
    with tarfile.open(project.root / "kit.tar") as tar:
        tar.extractall(tmp_path / "out", filter="data")
    assert holding(tmp_path / "out") == []
    assert "note.yaml" in done.stderr
    assert project.runner("verify", "kit.tar", "--level", "0").code == 0
