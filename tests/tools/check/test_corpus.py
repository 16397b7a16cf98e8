"""Right training scripts in many styles, and the same with one mistake each; the truth of each was measured."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.tools.check import processes
from runner.tools.check.check_command import _program
from runner.tools.check.checking import check
from runner.tools.check.finding import MISTAKE, Verdict
from tests.tools.check.warm import WarmServer

HERE = Path(__file__).parent
SCRIPTS = HERE / "scripts"
MISTAKES = [entry for path in sorted(HERE.glob("mistakes*.yaml")) for entry in yaml.safe_load(path.read_text("utf-8"))]
NEAR = 5
"""So many lines a finding may be away from the line that a person changes."""


@pytest.fixture(scope="session")
def server() -> Iterator[WarmServer]:
    with WarmServer() as running:
        yield running


@pytest.fixture(autouse=True)
def _forked(server: WarmServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "start", server.start)


def changed(entry: dict[str, Any]) -> str:
    """Return the script with the mistake; each text that is changed is there exactly once."""
    text = (SCRIPTS / f"{entry['script']}.py").read_text("utf-8")
    for old, new in entry["change"]:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def checked(text: str, folder: Path, name: str) -> Verdict:
    script = folder / f"{name}.py"
    script.write_text(text, "utf-8")
    mark = "# args: "
    arguments = next((line.removeprefix(mark).split() for line in text.splitlines() if line.startswith(mark)), [])
    scratch = folder / "seen"
    scratch.mkdir()
    return check(_program(str(script), arguments, [], "cpu", 2), 2, 300, scratch, lambda _: None)


@pytest.mark.parametrize("name", sorted(path.stem for path in SCRIPTS.glob("*.py")))
def test_no_mistake_is_found_in_a_right_script(name: str, tmp_path: Path) -> None:
    verdict = checked((SCRIPTS / f"{name}.py").read_text("utf-8"), tmp_path, name)
    assert [found for found in verdict.findings if found.level == MISTAKE] == []
    assert (verdict.word, verdict.unknown) == ("same", [])


@pytest.mark.parametrize("entry", MISTAKES, ids=lambda entry: entry["name"])
def test_a_mistake_is_named_by_kind_and_line(entry: dict[str, Any], tmp_path: Path) -> None:
    text = changed(entry)
    (at,) = [number for number, line in enumerate(text.splitlines(), 1) if entry["at"] in line]
    verdict = checked(text, tmp_path, entry["script"])
    kinds = {entry["kind"], *entry.get("or", [])}
    mistakes = [found for found in verdict.findings if found.level == MISTAKE]
    assert any(found.kind in kinds and found.line and abs(found.line - at) <= NEAR for found in mistakes), (
        at,
        [(found.kind, found.line, found.evidence) for found in mistakes],
        verdict.unknown,
    )
