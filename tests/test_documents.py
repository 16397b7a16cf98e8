"""The documents run: their commands in a copy of the project, with the files that they show; what they name exists."""

import html
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import runner
from runner.definitions import experiment as definition
from runner.definitions.published import figures
from runner.tools.pages.files import page_of
from tests.support.fork_server import command as command_of

ROOT = Path(__file__).resolve().parents[1]
TRACKED = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=True,
).stdout.splitlines()
TEXTS = {name: (ROOT / name).read_text("utf-8") for name in TRACKED if name.endswith(".md") and (ROOT / name).is_file()}
EVIDENCE = "docs/evidence/quickstart.tar"
BLOCKS = [
    (name, kind, body)
    for name, text in TEXTS.items()
    for kind, body in re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
]
COMMANDS = [
    (name, command)
    for name, kind, body in BLOCKS
    if kind == "console"
    for command in re.findall(r"^\$ (.+)$", body, re.MULTILINE)
]
SHOWN = [
    (path, body)
    for text in TEXTS.values()
    for path, body in re.findall(r"`([\w/.]+)`:\n\n```\w+\n(.*?)```", text, re.DOTALL)
]
MENTIONED = [(name, span) for name, text in TEXTS.items() for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", text)] + [
    (name, line.removeprefix("$ ")) for name, _, body in BLOCKS for line in body.splitlines()
]
"""Every piece of code in a document: spans within the text, and lines of blocks."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the files that the documents tell one to write."""
    folder = tmp_path_factory.mktemp("the project's copy")
    shutil.copytree(ROOT / "experiments", folder / "experiments", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "docs" / "own-scripts", folder / "docs" / "own-scripts")
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "results").mkdir()
    for path, text in SHOWN:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    return folder


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = (
        f"{Path(command_of('runner')).parent}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    )
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "PET_MONITOR_INTERVAL": "0.1"}
    return subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@cache
def help_of(command: str) -> str:
    done = run(f"{command} --help", ROOT)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def words_of(line: str, program: str) -> list[str]:
    """The words after the name of a program in a line of a document, or nothing if the line does not call it."""
    if not re.match(rf"{program} [a-z]", line):
        return []
    return shlex.split(line, comments=True)[1:]


def test_the_documents_show_commands_and_files() -> None:
    assert len(COMMANDS) > 8
    hello = {f"experiments/hello/{name}" for name in ("train.py", "hello.yaml", "prepare.py")}
    assert {path for path, _ in SHOWN} == hello | {"experiments/digits.yaml"}


def test_the_lines_that_a_document_shows_of_a_script_stand_in_it_in_this_order() -> None:
    text = TEXTS["docs/own-repository.md"]
    shown = re.findall(r"`docs/own-scripts/([\w.]+)`[^`]*:\n\n```python\n(.*?)```", text, re.DOTALL)
    assert {name for name, _ in shown} == {path.name for path in (ROOT / "docs" / "own-scripts").glob("*.py")}
    for name, excerpt in shown:
        lines = iter((ROOT / "docs" / "own-scripts" / name).read_text("utf-8").splitlines())
        for line in excerpt.splitlines():
            assert line in lines, f"{name}: {line}"  # the search goes on behind the last one found


@pytest.fixture(scope="module")
def begun() -> set[str]:
    """The commands that have begun in the copy of the project."""
    return set()


@pytest.mark.slow
@pytest.mark.parametrize(("document", "command"), COMMANDS, ids=[command for _, command in COMMANDS])
def test_a_command_of_the_documents_does_what_it_says(
    document: str, command: str, project: Path, begun: set[str]
) -> None:
    # A command may read what the README, or its own document, has trained before it.
    before = [text for name, text in COMMANDS[: COMMANDS.index((document, command))] if name in ("README.md", document)]
    for text in before:
        if text.startswith("runner run ") and text not in begun:
            begun.add(text)
            run(text, project)
    begun.add(command)
    done = run(command, project)
    assert done.returncode == 0, f"{document}: {done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr


def test_every_command_of_the_runner_in_a_document_exists_with_its_options() -> None:
    found = [(name, words) for name, line in MENTIONED if (words := words_of(line, "runner"))]
    assert len(found) > 30
    for name, words in found:
        of_group = words[0] == "image" and len(words) > 1 and not words[1].startswith("-")
        command = " ".join(["runner", *words[: 2 if of_group else 1]])
        own = words[: words.index("--")] if "--" in words else words  # what follows is for a script
        options = {word.partition("=")[0] for word in own if word[:2] == "--" and " " not in word}
        options = options if words[0] != "prepare" else set()
        missing = [option for option in options if option not in help_of(command)]
        assert not missing, f"{name}: runner {' '.join(words)}: no {missing}"


def test_every_target_of_make_in_a_document_exists() -> None:
    rules = re.findall(r"^([a-z][a-z -]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    targets = set(" ".join(rules).split())
    named = {words[0] for _, line in MENTIONED if (words := words_of(line, r"(?:[A-Z_]+=\S+ )*make"))}
    assert {"run", "test", "data"} <= named
    assert named <= targets


def test_every_link_of_a_document_leads_somewhere() -> None:
    links = [(name, link) for name, text in TEXTS.items() for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    assert len(links) > 15
    for name, link in links:
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        place = ((ROOT / name).parent / path).resolve() if path else ROOT / name
        assert place.exists(), f"{name}: {link}"
        if anchor:
            assert anchor in anchors(place.read_text("utf-8")), f"{name}: {link}"


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a document, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_every_path_that_a_document_names_exists() -> None:
    folders = {path.partition("/")[0] for path in TRACKED if "/" in path} - {"data", "results", ".github"}
    shown = {path for path, _ in SHOWN} | {"experiments/hello"}
    named = {
        (name, word.rstrip("/"))
        for name, text in MENTIONED
        for word in re.findall(r"[\w.-]+(?:/[\w.-]+)+", text)
        if word.partition("/")[0] in folders and word.rstrip("/") not in shown and "/x" not in word
    }
    assert len(named) > 20
    assert {(name, path) for name, path in named if not (ROOT / path).exists()} == set()


@pytest.mark.parametrize(("folder", "page"), [("compose", "docs/containers.md"), ("k8s", "k8s/README.md")])
def test_every_rendered_file_stands_in_the_table_of_its_page(folder: str, page: str) -> None:
    rows = [row.split("|")[1] for row in TEXTS[page].splitlines() if row.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([\w-]+\.ya?ml)`", row)}
    assert named == {path.name for path in (ROOT / folder).glob("*.y*ml")} - {"kustomization.yaml"}


def test_the_table_of_published_figures_has_those_of_the_definitions() -> None:
    head = "| document | what | hardware | printed | by its own times | measured here |\n|---|---|---|---|---|---|\n"
    rows = TEXTS["experiments/README.md"].partition(head)[2].partition("\n\n")[0].splitlines()
    lines = []
    for path in definition.files(ROOT):
        resolved = definition.load(path, ROOT).resolved()
        axes = [axis for axis in resolved["matrix"] if axis != "layout"]
        for line in figures(resolved):
            cell = " ".join([resolved["name"], line["layout"], *(str(line[axis]) for axis in axes if axis in line)])
            place = f", {line['where']}" if "where" in line else ""
            printed = [f"{line['total_seconds']:g} s"] if "total_seconds" in line else []
            printed += [f"{line['speedup']:g} x"] if "speedup" in line else []
            printed += [f"{line['best_accuracy']:.2%} best"] if "best_accuracy" in line else []
            own = f"{line['computed_speedup']:.2f}" if "computed_speedup" in line else ""
            source = resolved["published"]["source"].partition(",")[0]
            lines.append((f"| {source} | {cell} | {line['hardware']}{place} | ", ", ".join(printed), f" | {own} | "))
    assert len(rows) > 5
    for row in rows:
        assert any(row.startswith(first + printed) and own in row for first, printed, own in lines), row


def test_the_table_of_experiments_has_those_of_the_project() -> None:
    rows = re.findall(r"^\| (`.+`) \| [A-Z].*\?", TEXTS["experiments/README.md"], re.MULTILINE)
    assert set(re.findall(r"`([\w-]+)`", " ".join(rows))) == {path.stem for path in definition.files(ROOT)}


@pytest.mark.parametrize("archive", [EVIDENCE, "docs/evidence/script-mnist.tar"])
def test_the_kept_records_are_whole_and_the_table_of_the_readme_is_theirs(archive: str) -> None:
    done = run(f"COLUMNS=100 runner summarize {archive} --format table", ROOT)
    assert done.returncode == 0
    if archive == EVIDENCE:
        assert "\n".join(map(str.rstrip, done.stdout.strip().splitlines())) in TEXTS["README.md"]
    done = run(f"runner verify {archive}", ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum(path.stat().st_size for path in (ROOT / EVIDENCE).parent.iterdir()) < 3_000_000


def test_the_report_of_the_readme_is_one_small_file_that_says_what_the_pictures_are_said_to_show() -> None:
    page = (ROOT / "docs" / "report" / "report.html").read_bytes()
    assert len(page) < 1_000_000
    text = page.decode()
    assert not re.findall(r"(?<![\w.])/(?:home|root|tmp|work)/", text), "no path of the machine that made it"
    assert "<script" not in text
    captions = {html.unescape(caption) for caption in re.findall(r"<figcaption>(.*?)</figcaption>", text)}
    made_now = page_of([ROOT / EVIDENCE]).html
    assert captions == {html.unescape(caption) for caption in re.findall(r"<figcaption>(.*?)</figcaption>", made_now)}
    pictures = re.findall(r"(?m)^!\[(.+)\]\(docs/report/([\w-]+\.svg)\)$", TEXTS["README.md"])
    assert len(pictures) == 2
    for said, name in pictures:
        assert said in captions, said
        assert (ROOT / "docs" / "report" / name).read_text("utf-8").startswith("<?xml")


def test_the_citation_says_what_the_package_says_and_is_valid_by_its_schema() -> None:
    done = run(f"{sys.executable} -m check_jsonschema --builtin-schema vendor.citation-file-format CITATION.cff", ROOT)
    assert done.returncode == 0, done.stdout
    facts = re.findall(r'(?m)^(name|description|license) = "(.*)"$', (ROOT / "pyproject.toml").read_text("utf-8"))
    cited = dict(re.findall(r"(?m)^([\w-]+): (.+)$", (ROOT / "CITATION.cff").read_text("utf-8")))
    assert {name: cited[{"name": "title", "description": "abstract"}.get(name, name)] for name, _ in facts} == dict(
        facts
    )
    assert runner.__version__ in (ROOT / "docs/own-repository.md").read_text("utf-8")


def test_every_promise_about_input_from_others_names_a_test_that_exists() -> None:
    rows = [row.strip("|").split("|") for row in TEXTS["docs/security.md"].splitlines() if row.startswith("| ")][1:]
    assert len(rows) > 10
    for row in rows:
        tests = re.findall(r"`(tests/[\w/.]+)::(test_\w+)`", row[-1])
        assert tests, f"no test shows it: {row[1].strip()}"
        for path, test in tests:
            assert f"def {test}(" in (ROOT / path).read_text("utf-8"), f"{path}::{test}"
