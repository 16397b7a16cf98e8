"""Scripts that know nothing of the kit run from definitions; their stdout becomes records and rows."""

import json
from pathlib import Path
from typing import Any

import pytest

from runner.records.schema import NodeExit, Outcome, Record
from tests.support.projects import Project
from tests.support.records import Make

SCRIPT = """
import argparse, os, sys, time
import helper

parser = argparse.ArgumentParser()
parser.add_argument("rounds", type=int)
parser.add_argument("--say", default="done")
args = parser.parse_args()
time.sleep(0.2)
if os.environ["RANK"] == "0":
    for number in range(1, args.rounds + 1):
        print(f"round {number} of {args.rounds}: loss is {helper.loss(number)}")
    print(f"took 61.5 s for {os.environ['WORLD_SIZE']} workers, hits 94.5 percent: {args.say}")
print("CUDA:", repr(os.environ.get("CUDA_VISIBLE_DEVICES")), file=sys.stderr)
"""
DIALECT = r"""
name: rounds
about: a program that counts rounds
lines:
  - pattern: '^round (?P<epoch>{int}) of (?P<epochs>{int}): loss is (?P<train_loss>{number})'
    example: 'round 3 of 4: loss is 0.25'
  - pattern: '^took (?P<wall>{number}) s for (?P<world_size>{int}) workers, hits (?P<accuracy>{number}) percent'
    example: 'took 12.5 s for 2 workers, hits 94.5 percent: done'
    units: {wall: s, accuracy: percent}
  - pattern: 'percent: broken$'
    example: 'took 12.5 s for 2 workers, hits 94.5 percent: broken'
    says: failed
"""
PATH = "training code/train it.py"


@pytest.fixture
def own(project: Project) -> Project:
    """A project with a script of its own outside of experiments/, and a dialect for it."""
    folder = project.root / "training code"
    folder.mkdir()
    (project.root / PATH).write_text(SCRIPT)
    (folder / "helper.py").write_text("def loss(number):\n    return 1 / number\n")
    (project.root / "rounds.yaml").write_text(DIALECT.lstrip())
    return project


def define(project: Project, **changes: Any) -> None:
    values = {"program": PATH, "dialect": "rounds.yaml", "args": {"--": [3]}, "matrix": {"layout": ["1x2"]}}
    project.define(**{**values, **changes})


def run(project: Project, *words: str) -> dict[str, Any]:
    project.runner("run", "tiny", "--device", "cpu", *words)
    return project.record()


def test_each_figure_carries_the_line_that_it_is_from(own: Project) -> None:
    define(own, measure="stated_seconds", metrics={"seconds": r"took ([\d.]+) s"})
    record = run(own)
    assert record["status"] == "completed", record["reason"]
    found = {name: record["metrics"][name] for name in ("stated_seconds", "final_accuracy", "final_loss")}
    assert found == {"stated_seconds": 61.5, "final_accuracy": 0.945, "final_loss": pytest.approx(1 / 3)}
    assert record["sources"]["stated_seconds"] == record["sources"]["final_accuracy"] == "raw/node0-rank0.stdout:4"
    assert record["sources"]["final_loss"] == "raw/node0-rank0.stdout:3"
    assert record["sources"]["wall_seconds"] == "the runner's clock, from the launch to the end"
    assert record["metrics"]["wall_seconds"] > 0.2
    assert [epoch["epoch_num"] for epoch in record["epochs"]] == [1, 2, 3]
    assert record["printed"]["world_size"]["value"] == 2
    assert "doubts" not in record
    [row] = json.loads(own.runner("summarize", "results", "--format", "json").stdout)
    assert (row["seconds"], row["accuracy"]) == (61.5, 0.945)
    assert row["sources"]["final_accuracy"].endswith("raw/node0-rank0.stdout:4")
    assert "does not count its work" in own.runner("summarize", "results").stdout
    (folder,) = own.runs()
    # GPUs are hidden from a script that shall train without.
    assert "CUDA: ''" in (folder / "raw" / "node0-rank1.stderr").read_text()


def test_the_runners_own_clock_is_the_time_and_the_record_is_made_again_without_the_dialects_file(own: Project) -> None:
    define(own)
    before = run(own)
    [row] = json.loads(own.runner("summarize", "results", "--format", "json").stdout)
    assert (row["measure"], before["launch"]["measure"]) == ("wall_seconds", "sample_seconds")
    assert row["seconds"] == before["metrics"]["wall_seconds"]
    (own.root / "rounds.yaml").unlink()
    assert own.runner("collect", *own.runs()).code == 0
    assert own.record() == before


PLACE = "raw/node0-rank0.stdout"
ROUNDS = ["round 1 of 3: loss is 1.0", "round 2 of 3: loss is 0.5", "round 3 of 3: loss is 0.25"]
TOOK = "took 61.5 s for 2 workers, hits 94.5 percent: done"


def printed(folder: Path, make: Make, *lines: str, code: int = 0, **changes: Any) -> Record:
    """The record of a run whose first rank printed these lines."""
    outcome = Outcome(ended="2026-11-21T00:01:00+00:00", wall_seconds=62.0, exits=[NodeExit(0, code)])
    values: dict[str, Any] = {"layout": "1x2", "dialects": {"own": DIALECT}, **changes}
    return make.run(
        folder, stdout={0: "".join(f"{line}\n" for line in lines).encode()}, outcome=outcome, **values
    ).read()


def test_a_script_that_failed_is_not_completed_whatever_it_says(tmp_path: Path, make: Make) -> None:
    record = printed(tmp_path, make, *ROUNDS, TOOK, code=3)
    assert (record.status, record.reason) == ("failed", "node 0 exited with 3")
    record = printed(tmp_path / "says", make, *ROUNDS, TOOK.replace("done", "broken"))
    assert (record.status, record.reason) == ("failed", f"exit code 0, yet {PLACE}:4 says that it failed")


@pytest.mark.parametrize(
    ("lines", "doubts"),
    [
        ([*ROUNDS[1:], TOOK], [":1-2: its epochs begin with 2: it went on from a checkpoint of an earlier run"]),
        ([ROUNDS[1], ROUNDS[2].replace("3 of", "4 of"), TOOK], []),
        ([*ROUNDS[:2], TOOK], [":1-2: its epochs end with 2 of 3"]),
        ([*ROUNDS, TOOK.replace("for 2", "for 16")], [":4 says that 16 processes trained, and 2 were started"]),
    ],
)
def test_what_a_script_prints_may_be_doubtful(tmp_path: Path, make: Make, lines: list[str], doubts: list[str]) -> None:
    record = printed(tmp_path, make, *lines)
    assert (record.status, record.doubts) == ("completed", [f"{PLACE}{doubt}" for doubt in doubts])


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"dialect": "broken.yaml"}, "broken.yaml:6: this pattern cannot be used"),
    ({"metrics": {"cost": "cost .*"}}, "exactly one group"),
    ({"measure": "train_seconds"}, "is one of sample_seconds, wall_seconds, stated_seconds"),
    ({"measure": "stated_seconds"}, "metrics has to name the line"),
]


def test_what_cannot_be_run_is_refused_at_its_line(own: Project) -> None:
    (own.root / "broken.yaml").write_text(DIALECT.replace("(?P<wall>", "(?P<wall").lstrip())
    for changes, said in REFUSED:
        define(own, **changes)
        refused = own.refused("plan", "tiny")
        assert "tiny.yaml:" in refused
        assert said in refused
