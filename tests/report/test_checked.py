"""The verdicts of `runner check` stand beside the claims of the experiment."""

from pathlib import Path

from runner.records.checked import Check, keep
from runner.report.notes import notes
from runner.report.summarize import summarize
from runner.tools.pages.files import write_report
from tests.support.records import Make
from tests.tools.pages.conftest import make_scaling

OTHER = "other code or arguments"
MISTAKES = ["train.py:3: overlap", "train.py:9: leak"]


def test_the_newest_verdict_is_noted_and_drawn_and_whether_it_is_of_the_same_code_and_arguments(
    results: Path, make: Make, tmp_path: Path
) -> None:
    make_scaling(results, make, {"1x1": [10.0], "1x2": [6.0]})
    run = summarize(results)[0][0].first
    code, program, args = run.same["code"].split()[0], run.program, run.args

    def noted(check: Check) -> str:
        keep(results, run.experiment, 2, check)
        return "".join(note for note in notes(summarize(results)[0][0]) if "checked" in note)

    keep(results, run.experiment, 3, Check("unknown", code, program))
    differs = noted(Check("differs", code, program, {}, MISTAKES))
    assert differs.endswith("; ".join(MISTAKES))
    same = noted(Check("same", code, program, {**args, "unknown": 1}))
    assert same == noted(Check("same", code, program)) == "1x2: checked: same training"
    assert "unknown" in noted(Check("unknown", code, program))
    assert "clipping" in noted(Check("same", code, program, not_checked=["clipping"]))
    for other in (Check("same", "other", program), Check("same", code, program, dict.fromkeys(args, 77))):
        assert OTHER in noted(other)
    assert noted(Check("same", code, "another.program", off=[4e-8, 5e-8], order=3e-8)) == ""
    write_report([results], tmp_path / "page.html", experiment=None, plots=None)
    assert "2 processes: 4.0e-08 (3.0e-08" in (tmp_path / "page.html").read_text("utf-8")
