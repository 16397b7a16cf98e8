"""What a check says of programs as the five documents write them stands in experiments/README.md."""

import re
from pathlib import Path

import pytest

from runner.definitions.choices import Selection
from runner.tools.check.check_command import request
from runner.tools.check.checking import check
from runner.tools.check.mistakes import MENDS

ROOT = Path(__file__).parents[3]
FOLDER = Path(__file__).with_name("documents")
ROWS = re.findall(r"(?m)^\| `(\w+\.py)`, .* \| (.+) \|$", (ROOT / "experiments" / "README.md").read_text("utf-8"))


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(("program", "said"), ROWS)
def test_the_mistakes_of_the_documents_are_named_as_the_page_says(program: str, said: str, tmp_path: Path) -> None:
    line = ["--num-procs", "{n}"] if program == "mnist_spawn.py" else []
    verdict = check(request(Selection(str(FOLDER / program), line), 2)[1], 2, 300, tmp_path / "seen", lambda _: None)
    assert {finding.kind for finding in verdict.findings} == {kind for kind in MENDS if kind in said}
    lines = (FOLDER / program).read_text("utf-8").splitlines()
    for kind, text in re.findall(r"([\w-]+) at (?:the )?(?:printed |test )?`?(\w+)`?", said):
        (number,) = [finding.line for finding in verdict.findings if finding.kind == kind]
        assert text in lines[(number or 0) - 1]
    assert verdict.unknown == []


def test_every_program_of_the_documents_has_a_row() -> None:
    assert {program for program, _ in ROWS} == {path.name for path in FOLDER.glob("*.py")}
