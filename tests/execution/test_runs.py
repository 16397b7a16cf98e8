"""Runs from end to end: real torchrun and tiny programs, in a path with spaces, quotes and non-ASCII characters."""

import json

from tests.support.launches import BEGINNING, END, GLOO, GLOO_TOLD, nothing_is_left_of, one_run
from tests.support.projects import Project

STALE = {"WORLD_SIZE": "9", "RANK": "5", "PET_NNODES": "3", "PET_STANDALONE": "", "MASTER_PORT": "1"}
"""Variables left by another launcher, which must not change anything."""
PRINTS = """
sys.stdout.buffer.write(b"\\xff\\x00 no text, rank %d, r\\xc3\\xa9sum\\xc3\\xa9\\r\\n[rank0] [bold]x[/bold]" % RANK)
sys.stdout.flush()
sys.stderr.write(f"on stderr {RANK}\\n")
names = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS")
log.point("place", [os.environ[name] for name in names])
"""


def test_a_completed_run_keeps_every_rank_s_output_byte_for_byte(project: Project) -> None:
    ranks = [(0, 0), (0, 1), (1, 2)]
    one_run(project, BEGINNING + PRINTS + END, "2+1")
    done = project.runner("run", "tiny", env={**STALE, "OMP_NUM_THREADS": "64"})
    assert (done.code, done.stdout) == (0, ""), done.snapshot
    (run,) = project.runs()
    assert {path.name for path in (run / "raw").iterdir()} == {
        *(f"node{node}-rank{rank}.{stream}" for node, rank in ranks for stream in ("stdout", "stderr")),
        *(f"node{node}-agent.log" for node, _ in ranks),
        "outcome.json",
    }
    for node, rank in ranks:
        kept = (run / "raw" / f"node{node}-rank{rank}.stdout").read_bytes()
        assert b"\xff\x00 no text, rank %d, r\xc3\xa9sum\xc3\xa9\r\n[rank0] [bold]x[/bold]\n:::MLLOG" % rank in kept
        assert b'"value": ["%d", "%d", "%d", "3", "%d", "1"]' % (rank, rank % 2, node, 2 - node) in kept
        assert (run / "raw" / f"node{node}-rank{rank}.stderr").read_text() == f"on stderr {rank}\n"
    record = project.record()
    assert (record["status"], record.get("reason")) == ("completed", None)
    assert record["events"] == {"seen": 12, "expected": 12, "malformed": 0}
    assert nothing_is_left_of(run)

    before = (run / "run.json").read_bytes()
    (run / "run.json").unlink()
    again = project.runner("collect", run)
    assert (again.code, again.stdout) == (0, f"{run}: completed\n")
    assert (run / "run.json").read_bytes() == before


def test_the_rank_that_was_killed_first_is_named_and_further_repeats_are_not_run(project: Project) -> None:
    killed = GLOO.replace("DIE", "os.kill(os.getpid(), signal.SIGKILL)")
    told = GLOO_TOLD.replace("GLOO", killed.strip().replace("\n", "\n    "))
    project.program("toys.ok", BEGINNING + told + END)
    project.define(matrix={"layout": ["1x2", "1x1"]}, repeat=2)
    done = project.runner("run", "tiny")
    assert done.code == 1
    record, *others = map(project.record, project.runs())
    assert [other["status"] for other in others] == ["completed"] * 2
    assert (record["status"], record["reason"]) == ("failed", "rank 1 (node 0) was killed by SIGKILL")
    assert "these are the last words of rank 1" in record["failure"]["last_lines"]
    for words in ("last words of rank 1\n", "- 1x2  repeat 2  not run", "2 of 4 runs", "rank 1 on node 0"):
        assert words in done.stderr
    assert nothing_is_left_of(project.runs()[0])


def test_results_that_cannot_be_written_are_refused_before_anything_starts(project: Project) -> None:
    (project.root / "file").write_text("in the way")
    before = project.written()
    for place in ("file", "/proc/nowhere"):
        assert project.refused("run", "tiny", "--results", place).startswith(f"error: {place}")
    assert project.written() == before


def test_a_request_is_kept_and_is_what_a_dry_run_shows(project: Project) -> None:
    shown = project.runner("run", "tiny", "--only", "layout=1x1", "--set", "seed=7", "--dry-run")
    assert (shown.code, shown.stderr) == (0, "")
    assert not project.results.exists()
    assert project.runner("run", "tiny", "--only", "layout=1x1", "--set", "seed=7").code == 0
    (run,) = project.runs()
    assert (run / "request" / "request.json").read_text("utf-8") == shown.stdout
    launch = json.loads((run / "request" / "launch.json").read_bytes())
    assert launch == project.record()["launch"]
    assert launch["argv"] == [["torchrun", "-m", "experiments.toys.ok", "--seed", "7"]]
