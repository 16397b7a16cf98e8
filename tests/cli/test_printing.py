"""Text from outside prints no control character or escape sequence, and forges no line."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runner.cli.terminal import Screen
from runner.records.schema import Record
from tests.support.launches import BEGINNING
from tests.support.projects import Project, make_project
from tests.support.records import make_launch

WORDS = "\x1b]0;title\x07\x1b[2J\x9b31m\u202eevil\u2066\r\n| 1x8 | yes |\x7f"
RAW = re.compile(r"\x1b\]|\x1b\[2J|[\x00\x07\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Create a project in a folder with a hostile name, whose program fails with hostile output."""
    base = tmp_path_factory.mktemp("evil")
    project = make_project(base / WORDS.replace("/", ""), base / "cache")
    project.program("toys.ok", BEGINNING + f"print({WORDS + chr(0)!r}, file=sys.stderr)\nsys.exit(3)\n")
    project.define(summary=f"words {WORDS}", matrix={"layout": ["1x1"]})
    project.define(name="broken", **{f"key{WORDS}": 1})
    project.define(name="other", skip=[{"layout": "1x2", "why": f"because {WORDS}"}], program="toys.ok", repeat=1)
    return project


COMMANDS = [
    ["plan"],
    ["plan", "other"],
    ["plan", "tiny", "--only", f"layout={WORDS}"],
    ["run", "tiny"],
    ["run", "tiny", "--dry-run"],
    ["run", "tiny", "--on", WORDS],
    ["collect", WORDS],
    ["summarize"],
    ["targets", WORDS],
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words).encode("unicode_escape").decode()[:40])
def test_no_output_holds_a_control_character(evil: Project, words: list[str]) -> None:
    done = evil.runner(*words)
    assert "defect" not in done.stderr
    text = done.stdout + done.stderr
    assert text.replace("\n", "").replace("\t", "").isprintable(), text.encode("unicode_escape")
    assert "\n| 1x8 | yes |" not in text


@pytest.mark.parametrize("words", [["plan"], ["run", "tiny"], ["summarize"]], ids=" ".join)
def test_no_terminal_gets_an_escape_sequence_from_outside(evil: Project, words: list[str]) -> None:
    _, shown = evil.on_a_terminal(*words)
    assert not RAW.search(shown), shown.encode("unicode_escape")


@pytest.mark.parametrize(
    ("measure", "metrics", "says"),
    [
        ("train_seconds", {"train_seconds": 8.0}, "train_seconds 8.00  100 samples/s"),
        ("sample_seconds", {"sample_seconds": 0.01}, "100.00 samples/s  self-reported 100 samples/s"),
        ("sample_seconds", {"wall_seconds": 8.0}, "wall_seconds 8.00  self-reported 100 samples/s"),
    ],
)
def test_a_run_that_ended_shows_what_is_compared_and_what_a_script_says_as_such(
    measure: str, metrics: dict[str, float], says: str, capfd: Any
) -> None:
    figures = {**metrics, "samples_per_second": 100.0}
    record = Record(launch=make_launch(measure=measure), status="completed", metrics=figures)
    with Screen() as screen:
        screen.end(SimpleNamespace(name="1x1", repeat=1), record, Path())  # type: ignore[arg-type]
    assert says in "".join(capfd.readouterr())
