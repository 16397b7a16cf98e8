"""Scripts that do not use the kit run from definitions, and their stdout becomes records and rows."""

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
PATH, PLACE = "training code/train it.py", "raw/node0-rank0.stdout"


@pytest.fixture
def own(project: Project) -> Project:
    """Return a project with a script outside experiments/ and a dialect for it."""
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
    figures = {"stated_seconds": (61.5, 4), "final_accuracy": (0.945, 4), "final_loss": (pytest.approx(1 / 3), 3)}
    for name, (value, line) in figures.items():
        assert (record["metrics"][name], record["sources"][name]) == (value, f"{PLACE}:{line}")
    assert "clock" in record["sources"]["wall_seconds"]
    assert record["metrics"]["wall_seconds"] > 0.2
    assert [epoch["epoch_num"] for epoch in record["epochs"]] == [1, 2, 3]
    assert "doubts" not in record
    [row] = json.loads(own.runner("summarize", "results", "--format", "json").stdout)
    assert (row["seconds"], row["accuracy"]) == (61.5, 0.945)
    assert row["sources"]["final_accuracy"].endswith(f"{PLACE}:4")
    (folder,) = own.runs()
    # GPUs are hidden from a script on --device cpu.
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


ROUNDS = ["round 1 of 3: loss is 1.0", "round 2 of 3: loss is 0.5", "round 3 of 3: loss is 0.25"]
TOOK = "took 61.5 s for 2 workers, hits 94.5 percent: done"


def printed(folder: Path, make: Make, *lines: str, code: int = 0) -> Record:
    """Return the record of a run whose first rank printed these lines."""
    outcome = Outcome(ended="2026-11-21T00:01:00+00:00", wall_seconds=62.0, exits=[NodeExit(0, code)])
    values: dict[str, Any] = {"layout": "1x2", "dialects": {"own": DIALECT}, "outcome": outcome}
    return make.run(folder, stdout={0: "".join(f"{line}\n" for line in lines).encode()}, **values).read()


def test_a_script_that_failed_is_not_completed_whatever_it_says(tmp_path: Path, make: Make) -> None:
    record = printed(tmp_path, make, *ROUNDS, TOOK, code=3)
    assert (record.status, record.reason) == ("failed", "node 0 exited with 3")
    record = printed(tmp_path / "says", make, *ROUNDS, TOOK.replace("done", "broken"))
    assert (record.status, f"{PLACE}:4" in record.reason) == ("failed", True)


@pytest.mark.parametrize(
    ("lines", "place", "word"),
    [
        ([*ROUNDS[1:], TOOK], ":1-2", "checkpoint"),
        ([ROUNDS[1], ROUNDS[2].replace("3 of", "4 of"), TOOK], "", ""),
        ([*ROUNDS[:2], TOOK], ":1-2", "2 of 3"),
        ([*ROUNDS, TOOK.replace("for 2", "for 16")], ":4", "16"),
    ],
)
def test_what_a_script_prints_may_be_doubtful(
    tmp_path: Path, make: Make, lines: list[str], place: str, word: str
) -> None:
    record = printed(tmp_path, make, *lines)
    assert (record.status, len(record.doubts)) == ("completed", bool(word))
    assert all(doubt.startswith(f"{PLACE}{place}") and word in doubt for doubt in record.doubts)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"dialect": "broken.yaml"}, "broken.yaml:6"),
    ({"metrics": {"cost": "cost .*"}}, "group"),
    ({"measure": "train_seconds"}, "sample_seconds"),
    ({"measure": "stated_seconds"}, "the metric"),
]


def test_what_cannot_be_run_is_refused_at_its_line(own: Project) -> None:
    (own.root / "broken.yaml").write_text(DIALECT.replace("(?P<wall>", "(?P<wall").lstrip())
    for changes, said in REFUSED:
        define(own, **changes)
        refused = own.refused("plan", "tiny")
        assert "tiny.yaml:" in refused
        assert said in refused
