"""The page as a file: what it says, how large it is, that it is the same each time, and what odd results become."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from runner.records.folder import RunFolder
from runner.report.run_summary import summary_of
from runner.tools.pages.details import details_of
from runner.tools.pages.document import MOST_BYTES, MOST_PLOTS
from runner.tools.pages.files import write_report
from tests.report.hostile import edited, state
from tests.support.projects import ROOT, Ended, complete
from tests.support.records import Make
from tests.tools.pages.conftest import FAILED, HOSTILE, lines_of_epochs, make_messages, make_scaling, one_a_second

PLOTS = ("speed-up", "phases", "loss-epochs", "loss-seconds", "accuracy-epochs", "accuracy-seconds")


def page_of(*folders: Path, experiment: str | None = None, plots: Path | None = None) -> str:
    path = folders[0].parent / "page.html"
    write_report(list(folders), path, experiment=experiment, plots=plots)
    return path.read_text("utf-8")


def titles(page: str) -> list[str]:
    return re.findall(r"<figure><h4>(.*?)</h4>", page)


def captions(page: str) -> str:
    return " ".join(re.findall(r"<figcaption>(.*?)</figcaption>", page))


def not_drawn(page: str) -> list[str]:
    return re.findall(r"<li>([^<]*)</li>", page.partition("Not drawn</h3>")[2].partition("</ul>")[0])


def test_the_page_has_every_plot_and_says_what_to_conclude(scaling: Path) -> None:
    page = page_of(scaling)
    assert titles(page) == [
        *("Time per phase", "Bus bandwidth, 1x1"),
        *("Speed-up", "Time per phase", "Loss over epochs", "Loss over seconds"),
        *("Accuracy over epochs", "Accuracy over seconds", "CPU load over time", "Memory over time"),
    ]
    said = captions(page)
    for words in (
        "1x2 is 1.67 [1.61, 1.72] times as fast as 1x1, and this may be claimed; ideal is 2.",
        "After 4 epochs, test accuracy is: 1x1 90.00%, 1x2 90.00%. The cells learn equally",
        "88.2% accuracy: 1x2 after 6.00 s, 1x1 after 10.00 s.",
        "all_reduce is the fastest",
        "1x1 42%",
    ):
        assert words in said, words
    assert "1 of 1 comparisons" in page
    assert "default-src 'none'" in page
    assert "<script" not in page
    addresses = set(re.findall(r"https?://[^\"'<> ]+", page))
    assert addresses == {"http://www.w3.org/1999/xlink"}, "the name of a format: nothing is fetched"


def test_what_may_be_claimed_is_counted_a_slow_down_is_called_one_and_the_rest_has_its_reason(
    results: Path, make: Make
) -> None:
    for layout, times in {"1x1": [10.0, 10.1, 9.9], "1x2": [6.0, 6.1], "1x4": [20.0, 20.1, 19.9]}.items():
        for time in times:
            make.run(results, time, layout=layout)
    page = page_of(results)
    for words in ("1 of 2 comparisons", "<li>1x4 is 0.50 times as fast as 1x1, a slow-down, 95%", "<b>1x2</b>: n = 2"):
        assert words in page


def test_each_run_stands_there_with_where_it_came_from(results: Path, make: Make) -> None:
    make_scaling(
        results,
        make,
        {"1x1": [10.0], "1x2": [6.0]},
        code={"commit": "a" * 40, "dirty": True, "sources_sha256": "c" * 64},
        image={"digest": "sha256:" + "b" * 64},
        argv=[["torchrun", "--note", "two words"]],
    )
    make_scaling(results, make, {"1x2": [6.1]}, code={"commit": "f" * 40, "sources_sha256": "c" * 64})
    page = page_of(results)
    for words in (
        "torchrun --note &#39;two words&#39;",
        "sha256:" + "b" * 64,
        "aaaaaaaaaaaa with uncommitted changes",
        '<th scope="col">commit</th>',  # what differs between runs is a column
        "node-a",
        *map(str, results.glob("*/*")),
    ):
        assert words in page


@pytest.mark.slow
def test_the_same_results_give_the_same_bytes_and_nothing_is_written_to_them(scaling: Path, tmp_path: Path) -> None:
    before = state(scaling)
    folders = (tmp_path / "a b" / "one", tmp_path / "two")
    first, second = (page_of(scaling, plots=folder) for folder in folders)
    assert first == second
    assert state(scaling) == before
    files, again = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
    assert files == again
    assert len(files) == 2 * len(titles(first))
    for name in PLOTS:
        drawn = files[f"02-tiny-{name}.svg"].decode()
        assert ET.fromstring(drawn).tag.endswith("svg")  # noqa: S314 - our own file
        assert "var(" not in drawn, "a file of its own has no page to take colours from"
        assert files[f"02-tiny-{name}.png"].startswith(b"\x89PNG")


@pytest.mark.slow
def test_many_experiments_are_a_page_of_less_than_a_megabyte_that_names_the_others(results: Path, make: Make) -> None:
    for number in range(34):
        make_scaling(results, make, {"1x1": [10.0], "1x2": [6.0]}, experiment=f"experiment-{number:03}")
    page = page_of(results)
    assert len(page.encode()) <= MOST_BYTES < 1_000_000
    assert len(titles(page)) <= MOST_PLOTS
    assert "experiment-033" in re.findall(r"<h2>(.*?)</h2>", page), "the newest is there"
    assert "experiment-000: 1 tables, 2 runs" in page
    assert len(titles(page_of(results, experiment="experiment-000"))) == 8


def test_few_or_failed_runs_are_a_page_with_gaps_that_say_why(results: Path, make: Make) -> None:
    results.mkdir()
    assert "There are no runs yet" in page_of(results)
    for layout in ("1x1", "1x2"):
        make.run(results, stdout={0: b"no event\n"}, outcome=FAILED, layout=layout)
    page = page_of(results)
    assert titles(page) == []
    assert "Speed-up: no run is complete" in not_drawn(page)
    assert "<td>failed</td>" in page
    make_scaling(results, make, {"1x1": [10.0]}, experiment="one")
    page = page_of(results, experiment="one")
    assert ["1x1" in gap for gap in not_drawn(page)] == [True]
    assert "Loss over epochs" in titles(page)


def test_a_value_that_is_no_number_is_a_gap_in_its_line_and_in_words(results: Path, make: Make) -> None:
    make.run(results, stdout={0: lines_of_epochs(0, 10.0, [2.0, None, 0.5], [0.5, 0.6, 0.7])})
    said = captions(page_of(results))
    assert "Gaps in the line of 1x1" in said
    assert "nan" not in re.sub(r"[\"'].*?[\"']", "", said).lower()


def test_names_of_strangers_are_text_and_files_stay_in_their_folder(results: Path, make: Make, tmp_path: Path) -> None:
    make_scaling(results, make, {"1x1": [10.0], "1x2": [6.0]}, axes={"way": HOSTILE})
    make_messages(results, make, HOSTILE)
    for run in list(results.glob("tiny/*")):
        edited(run, "launch", "experiment", value="../../" + HOSTILE)
    page = page_of(results, plots=tmp_path / "plots")
    assert not [sign for sign in ("<script", "\x1b", "\u202e") if sign in page]
    drawn = list((tmp_path / "plots").iterdir())
    assert len(drawn) > 10
    assert all(re.fullmatch(r"[\w.-]+", path.name) for path in drawn)
    for path in (tmp_path / "plots").glob("*.svg"):
        assert not {tag.tag.rpartition("}")[2] for tag in ET.parse(path).iter()} & {"script", "image", "a"}  # noqa: S314


def test_a_load_that_others_may_have_made_is_not_taken_for_that_of_the_runs(results: Path, make: Make) -> None:
    make_scaling(results, make, {"1x1": [10.0], "1x2": [6.0]}, facts={"machine_cores": 2})
    for run in results.glob("tiny/*"):
        own = 15.0 if RunFolder(run).launch().layout == "1x1" else 95.0
        edited(run, "load", 0, "mean", value={"cpu_percent": 97.0, "own_cpu_percent": own})
    said = captions(page_of(results))
    assert "With 1x2, nothing is idle" in said
    assert "1x1 was disturbed: other processes used 1.64 of 2 cores during 1x1 repeat 1" in said


def test_the_load_of_gpus_over_time_is_the_mean_of_their_use_and_of_nothing_else(results: Path, make: Make) -> None:
    figures = {"gpu0_percent": 100.0, "gpu1_percent": 50.0, "gpu_throttled_percent": 0.0, "gpu0_memory_bytes": 3e9}
    start = ("run_start", None, {"host": "node-a", "device_name": "Toy GPU"})
    end = [("tracked_stats", {"train_seconds": 5.0}, {}), ("run_stop", None, {"status": "success"})]
    told = [start, *[("load", None, figures)] * 5, *end]
    record = make.run(results, stdout={0: one_a_second(0, told)}, device="cuda").read()
    assert [value for _, value in details_of(record).load["gpu_percent"]] == [75.0] * 5
    assert summary_of(record).load["gpu_percent"] == 75.0


def without_matplotlib(folder: Path, *words: str) -> Ended:
    code = f"import sys; sys.modules['matplotlib'] = None; sys.argv = {['runner', 'report', *words]!r}; "
    command = [sys.executable, "-c", code + "from runner.cli import main; main()"]
    return complete(command, folder, {"PYTHONPATH": str(ROOT)})


def test_without_matplotlib_the_page_has_all_but_its_plots_and_says_so(scaling: Path) -> None:
    done = without_matplotlib(scaling.parent, str(scaling), "--plots=pictures")
    assert (done.code, "make report" in done.stderr) == (2, True)
    assert not (scaling.parent / "report.html").exists()
    done = without_matplotlib(scaling.parent, str(scaling))
    assert (done.code, "matplotlib" in done.stderr) == (0, True)
    page = (scaling.parent / "report.html").read_text("utf-8")
    assert [word in page for word in ("matplotlib", "speed-up [95%]", "<figure")] == [True, True, False]
