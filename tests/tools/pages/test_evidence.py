"""The page for a proposal: over the smallest cell that completed, with node-hours, and the same as LaTeX."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from runner.core.errors import RequestError
from runner.tools.pages.evidence import tex
from runner.tools.pages.files import write_evidence
from tests.support.projects import MINIMAL
from tests.support.records import Make
from tests.tools.pages.conftest import FAILED, HOSTILE, make_scaling


def evidence_of(results: Path, experiment: str | None = None) -> tuple[str, str, list[str]]:
    """The page, the LaTeX file, and the files that were written."""
    path = results.parent / "a page_1.html"
    written = write_evidence([results], path, experiment=experiment, plots=None)
    return path.read_text("utf-8"), (results.parent / "a-page_1.tex").read_text("utf-8"), written


def cells(page: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(.*?)</tr>", page)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]


def test_it_states_scaling_baseline_node_hours_and_what_may_be_claimed(results: Path, make: Make) -> None:
    times = {"1x1": [10.0, 10.1, 9.9], "1x2": [6.0, 6.1, 5.9], "2x2": [5.0, 5.1, 4.9]}
    make_scaling(results, make, times)
    page, latex, written = evidence_of(results)
    head, *rows = cells(page)
    assert head == [
        *("nodes", "processes", "n", "train seconds [95%]", "speed-up [95%]", "efficiency"),
        *("node-hours a run", "claimed"),
    ]
    assert [row[:3] for row in rows] == [["1", "1", "3"], ["1", "2", "3"], ["2", "4", "3"]]
    assert [row[5] for row in rows] == ["100%", "83%", "50%"]
    hours = [2 * (5.0 + 2) / 3600, 1 * (10.0 + 2) / 3600]  # a run lasts two seconds longer than its training
    assert rows[2][6] == f"{hours[0]:.3g}"
    assert rows[0][6] == f"{hours[1]:.3g}"
    for text in (page, latex):
        assert "Strong scaling" in text
        assert "1x1, one process, 10.00 s" in text
        assert "1x2 (83" in text
        assert "95" in text.partition("1x2 (83")[2][:20], "by the low end of the interval"
        assert "Claimed, with three runs or more on both sides" in text
    assert r"\includegraphics[width=0.68\linewidth]{a-page_1-speed-up.pdf}" in latex
    assert (results.parent / "a-page_1-speed-up.pdf").read_bytes().startswith(b"%PDF")
    assert len(written) == 3


def test_where_one_process_did_not_complete_the_smallest_that_did_is_the_baseline(results: Path, make: Make) -> None:
    make.run(results, stdout={0: b""}, outcome=FAILED, layout="1x1", definition={**MINIMAL, "published": None})
    make_scaling(results, make, {"1x2": [10.0, 10.1, 9.9], "1x4": [6.0, 6.1, 5.9]})
    page, _, _ = evidence_of(results)
    assert "1x2, 2 processes, 10.00 s; 1x1 did not complete" in page
    _, base, other = cells(page)
    assert base[4] == "1.00"
    assert other[4].startswith("1.67 [")
    assert other[5] == "83%"
    assert (base[-1], other[-1]) == ("the baseline", "yes"), "both are said of the speed-up that stands there"


def test_a_slow_down_that_may_be_claimed_is_called_one(results: Path, make: Make) -> None:
    make_scaling(results, make, {"1x1": [10.0, 10.1, 9.9], "1x2": [6.0, 6.1, 5.9], "1x4": [20.0, 20.1, 19.9]})
    page, latex, _ = evidence_of(results)
    for text in (page, latex):
        assert "of the same code, data, work and kind of machine: 1x2 and 1x4 (a slow-down)." in text


MATRIX = {"layout": ["1x1", "1x2", "1x4"], "communication": ["ddp", "bf16"]}
DECLARED = {**MINIMAL, "published": None, "matrix": MATRIX, "baseline": {"layout": "1x1", "communication": "ddp"}}


def test_a_claim_belongs_to_the_speed_up_beside_it_where_the_definition_declares_another_baseline(
    results: Path, make: Make
) -> None:
    def compared(communication: str, times: dict[str, list[float]]) -> None:
        make_scaling(results, make, times, axes={"communication": communication}, definition=DECLARED)

    compared("ddp", {"1x1": [10.0, 10.1, 9.9], "1x2": [6.0, 6.1, 5.9]})
    compared("bf16", {"1x2": [5.0, 5.1, 4.9], "1x4": [4.8, 5.0, 4.7]})
    page, latex, _ = evidence_of(results)
    claims = {tuple(row[1:3]): (row[5].split()[0], row[-1]) for row in cells(page)[1:]}
    assert claims == {
        ("1", "ddp"): ("1.00", "the baseline"),
        ("2", "ddp"): ("1.67", "yes"),
        ("2", "bf16"): ("1.00", "the baseline"),
        ("4", "bf16"): ("1.03", "the interval includes 1"),
    }, "over 1x1 ddp, 1x4 bf16 is twice as fast, which may be claimed"
    said = "Claimed, with three runs or more on both sides, of the same code, data, work and kind of machine: 1x2 ddp."
    bases = "1x1 ddp, one process, 10.00 s. 1x2 bf16, 2 processes, 5.00 s; smaller ones were not run."
    for text in (page, latex):
        assert said in text
        assert f" {bases}" in text
        assert "Speed-up over each line" in text
    assert "speed-up x baseline" in page, "the name of the axis"


def test_weak_scaling_compares_samples_per_second(results: Path, make: Make) -> None:
    make_scaling(results, make, {"1x1": [10.0, 10.1, 9.9], "1x2": [6.0, 6.1, 5.9]}, scaling="weak")
    page, latex, _ = evidence_of(results)
    assert "<b>Weak scaling</b>: the batch of a process is the same" in page
    assert "Weak scaling: the batch of a process is the same" in latex


def test_an_efficiency_that_its_interval_does_not_show_is_not_said_to_be_reached(results: Path, make: Make) -> None:
    make_scaling(results, make, {"1x1": [10.0, 14.0, 8.0], "1x2": [6.0, 4.0, 9.0]})
    page, _, _ = evidence_of(results)
    assert re.search(r"The efficiency of 1x2 is 8\d%, but its interval begins at \d+%: 70% is not shown", page)
    assert "or more up to" not in page


def test_it_is_about_one_experiment_and_needs_a_complete_run(results: Path, make: Make) -> None:
    results.mkdir()
    with pytest.raises(RequestError, match="no runs, so there is no evidence to show"):
        evidence_of(results)
    make_scaling(results, make, {"1x1": [10.0]})
    make_scaling(results, make, {"1x1": [10.0]}, experiment="other")
    with pytest.raises(RequestError, match="choose it with --experiment; known: other, tiny"):
        evidence_of(results)
    evidence_of(results, "other")
    make.run(results, stdout={0: b""}, outcome=FAILED, experiment="broken")
    with pytest.raises(RequestError, match="broken: no run is complete"):
        evidence_of(results, "broken")


def test_the_same_results_give_the_same_bytes(results: Path, make: Make) -> None:
    make_scaling(results, make, {"1x1": [10.0], "1x2": [6.0]})
    first = (*evidence_of(results), (results.parent / "a-page_1-speed-up.pdf").read_bytes())
    assert first == (*evidence_of(results), (results.parent / "a-page_1-speed-up.pdf").read_bytes())


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (r"\input{/etc/passwd}", r"\textbackslash{}input\{/etc/passwd\}"),
        ("100% of $x_1$ & #2 ~ ^", r"100\% of \$x\_1\$ \& \#2 \textasciitilde{} \textasciicircum{}"),
        ("--epochs ---", "-{}-epochs -{}-{}-"),
        ("Zürich 目 ", "Zürich [U+76EE]"),
        ("<a|b>", r"\textless{}a\textbar{}b\textgreater{}"),
        ("two\nlines\x1b", r"two lines\textbackslash{}x1b"),
    ],
)
def test_latex_gets_no_commands_from_names(text: str, written: str) -> None:
    assert tex(text) == written


def test_the_latex_file_of_names_of_strangers_has_no_command_of_theirs(results: Path, make: Make) -> None:
    odd = HOSTILE + r" \input{/etc/passwd} % $$ ^^41 \end{document} [*] 目"
    make_scaling(results, make, {"1x1": [10.0], "1x2": [6.0]}, axes={"way": odd}, args={"a": odd}, program=odd)
    _, latex, _ = evidence_of(results)
    assert latex.count(r"\end{document}") == 1
    assert r"\input" not in latex
    assert latex.isascii()
    if shutil.which("pdflatex"):
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "a-page_1.tex"]
        done = subprocess.run(command, cwd=results.parent, capture_output=True, check=False)
        assert b"Output written on a-page_1.pdf (1 page" in done.stdout, done.stdout[-2000:]
