"""`runner report`, as a person types it."""

import pytest

from tests.support.projects import Project


def test_a_page_and_its_plots_are_written_and_named(finished: Project) -> None:
    done = finished.runner("report", "results", "-o", "../my page.html", "--plots", "../plots")
    assert done.code == 0, done.snapshot
    page = (finished.root.parent / "my page.html").read_text("utf-8")
    assert "A tiny experiment" in page
    assert (done.stdout, "../my page.html: " in done.stderr, "../plots: " in done.stderr) == ("", True, True)
    assert (finished.root.parent / "plots" / "01-tiny-speed-up.svg").is_file()


@pytest.mark.slow
def test_nothing_is_written_into_a_run_and_a_folder_that_is_not_there_is_one_line(finished: Project) -> None:
    run = next((finished.root / "results" / "tiny").iterdir())
    before = sorted(run.rglob("*"))
    for words in (
        ["results", "-o", f"{run}/page.html"],
        ["results", "--plots", f"{run}/raw/plots", "-o", "../x.html"],
        ["no-results"],
    ):
        done = finished.runner("report", *words)
        assert (done.code, "folder" in done.stderr) == (2, True)
    assert sorted(run.rglob("*")) == before


@pytest.mark.parametrize("words", [["--to", "elsewhere", "-o", "sqlite:///x.db"], ["--to", "mlflow"]])
def test_runs_are_handed_to_mlflow_at_a_place_that_is_named(finished: Project, words: list[str]) -> None:
    done = finished.runner("report", "results", *words)
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: --to ")
