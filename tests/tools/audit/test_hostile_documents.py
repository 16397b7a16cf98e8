"""Documents from strangers: whatever is in them, the audit ends soon, in bounded memory, with a line."""

import json
import re
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.core.errors import RequestError
from runner.tools.audit.document import audit_file, audit_page
from runner.tools.audit.formats import FORMATS, LOOKED_AT, guess
from runner.tools.audit.prose import MOST_COMPARED
from tests.support.patience import patient
from tests.support.projects import Project

RAW = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
PIECES = (
    "| --- 1.00 time 加速比 <table> </tr> <th> , ; 99% ± [^1] GPUs speedup published: rows: ``` 1e999 0 -5 x".split()
)
PIECES += ["\n", "<td rowspan=9>", '"', "\t", " - {a: 1}", "\x1b[2J", " "]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join), st.sampled_from([*FORMATS]))
def test_any_text_is_audited_or_refused_in_one_line(text: str, format_: str) -> None:
    try:
        audit = audit_page(FORMATS[format_](text, "page"))
    except RequestError as error:
        assert "\n" not in str(error)
        return
    json.dumps([vars(finding) for finding in audit.findings], allow_nan=False)


def many_numbers(rows: int) -> str:
    chance = Random(1)
    lines = [
        f"| {2 ** (row % 5)} | m{row // 5} | {chance.uniform(1, 99):.2f} | {chance.uniform(1, 9):.2f} |"
        for row in range(rows)
    ]
    return "| GPUs | Model | time | speedup |\n|---|---|---|---|\n" + "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deep.md", "> " * 50_000 + "\n" + "- " * 20_000 + "\n" + "[" * 200_000 + "\n" + "*a_" * 100_000),
        ("wide.md", "|" * 4_000 + "\n" + "|-" * 4_000 + "\n"),
        ("nested.html", "<table><tr><td>" * 100_000 + "x"),
        ("quotes.csv", '"' * 100_001 + "\n" + "a,b\n" * 100),
        ("long.md", many_numbers(9_000)),
        ("words.md", "took 5 seconds. It is 2x faster than one. " * 20_000),
        ("lines.txt", "-" * 500_000 + "\n" + " " * 500_000 + "|" * 500_000),
    ],
)
def test_a_document_made_to_be_slow_ends_soon(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    begin = time.process_time()
    audit_file(tmp_path / name)
    assert time.process_time() - begin < patient(20)


@pytest.mark.parametrize("piece", ["\n", " ", " \n", ">", "> ", "|", "-", "- ", " -", ":-", "|-", "-|", "|\n"])
def test_a_format_is_guessed_soon_whatever_the_text_is_made_of(piece: str) -> None:
    begin = time.process_time()
    guess(piece * 20_000 + "x")
    assert time.process_time() - begin < patient(2)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "table", ["a | b\n--|--\n1 | 2\n", "> | a | b |\n> |:--|--:|\n> | 1 | 2 |\n", "  | a |\n  | - |\n  | 1 |\n"]
)
def test_a_table_of_markdown_is_known_by_the_line_below_its_headings(table: str, end: str) -> None:
    text = f"One, two\nthree, four\n\n{table}".replace("\n", end)
    assert guess(text) == "markdown"
    assert guess("x, y\n" * LOOKED_AT + text) == "csv"


def test_sentences_are_compared_up_to_a_number_and_a_note_says_where_that_ends() -> None:
    count = 5 * MOST_COMPARED
    paragraphs = [
        f"Step {number} took {100 + number}.00 s.\n\n"
        f"Now it is {9.9 if number % 3 else 2.0}x faster: {50 + number / 2:.2f} s.\n\n"
        f"Its accuracy is {90 + number % 10}.1234% on 2 GPUs."
        for number in range(count)
    ]
    begin = time.process_time()
    audit = audit_page(FORMATS["markdown"]("\n\n".join(paragraphs), "page"))
    assert time.process_time() - begin < patient(8)
    assert sum(number.column == "speed-up" for number in (*audit.findings, *audit.unchecked)) == MOST_COMPARED
    line = 1 + 6 * MOST_COMPARED
    for what, place in (("times", line), ("speed-ups", line + 2), ("accuracies", line + 4)):
        reason = f"page:{place}: {what}: after the first {MOST_COMPARED} in the text"
        assert reason in [str(number) for number in audit.unchecked]


@pytest.mark.parametrize("piece", ["<!--", "<a ", '<td title="', "<![CDATA[ >", "</a ", "<!DOCTYPE x ["])
def test_a_page_of_what_never_ends_is_read_in_time_that_grows_with_it(piece: str) -> None:
    begin = time.process_time()
    FORMATS["html"](piece * (1_000_000 // len(piece)), "page")
    assert time.process_time() - begin < patient(8)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("large.md", b"x" * 2_000_001, "more than 2,000,000 bytes"),
        ("lines.md", b"\n" * 60_000, "60,000 lines; 50,000 are the most"),
        ("merged.html", b"<table>" + b"<tr><td rowspan=9999 colspan=9999>1</td></tr>" * 3_000, "60,000 are the most"),
        ("wide.csv", b",".join([b"a"] * 1_000) + b"\n1\n", "1,000 columns; 200 are the most"),
        ("bytes.csv", bytes(range(256)), "not UTF-8"),
        ("zero.md", b"a\0b", "this is no text"),
        ("plain.yaml", b"name: x\n", "no 'published:' block"),
        ("broken.yaml", b"published: [", "not YAML"),
    ],
)
def test_what_cannot_be_audited_is_refused_with_the_reason(
    name: str, data: bytes, reason: str, project: Project
) -> None:
    (project.root / name).write_bytes(data)
    done = project.runner("audit", name)
    assert (done.code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert reason in done.stderr


def test_a_link_a_folder_a_device_and_a_missing_file_are_refused(project: Project) -> None:
    (project.root / "link.md").symlink_to("/etc/hostname")
    for name in ("link.md", ".", "/dev/zero", "nowhere.md"):
        done = project.runner("audit", name)
        assert (done.code, done.stdout) == (2, "")
        assert "cannot be read" in done.stderr or "has more than" in done.stderr
    assert project.runner("audit", "--format", "pdf", "x").code == 2


def test_no_text_of_a_table_reaches_the_terminal_raw_or_forges_a_line(project: Project) -> None:
    evil = "| GPUs | time\x1b[2J | speedup \u202e<b> |\n|---|---|---|\n| 1 | 100 s | 1.00 |\n"
    evil += "| 2\x9b31m | 50 s\r | 3.00 \x07 |\n"
    (project.root / "evil.md").write_text(evil, "utf-8")
    for words in ([], ["--json"], ["--all"]):
        done = project.runner("audit", "evil.md", *words)
        assert not RAW.search(done.stdout)


def test_a_page_with_ten_tables_and_an_empty_one_give_a_summary(project: Project) -> None:
    table = "\n| GPUs | time (s) | speedup |\n|---|---|---|\n| 1 | 100.0 | 1.00 |\n| 2 | 52.0 | 1.92 |\n\n"
    (project.root / "ten.md").write_text((table + "Text.\n") * 10, "utf-8")
    (project.root / "empty.md").write_text("", "utf-8")
    done = project.runner("audit", "ten.md", "empty.md")
    assert done.code == 0
    assert done.stdout.splitlines() == [
        "ten.md: 10 tables, 20 numbers checked: 20 consistent; 40 not",
        "  not checked: 40 numbers, measured or set: nothing in the table that it follows from",
        "empty.md: 0 tables, 0 numbers checked; 0 not",
        "  no table that is read: Markdown, HTML, CSV, or text in a block of code",
    ]
    assert project.runner("audit", "empty.md", "--json").stdout == "[]\n"
