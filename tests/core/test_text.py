"""Any text from outside becomes one printable line."""

from hypothesis import given
from hypothesis import strategies as st

from runner.core.text import LONGEST, escaped, listed, one_line

ANY = st.text(st.characters() | st.sampled_from("\x1b\x9b\n\r\t\u202e\u2066\u200f\x7f\0\ud800 "))


@given(ANY, st.integers(1, 50))
def test_any_text_becomes_one_printable_line_of_bounded_length(text: str, most: int) -> None:
    line = one_line(text, most)
    assert line.isprintable()
    assert escaped(text).isprintable()
    assert len(line) <= most + 3
    assert one_line(line, most + 3) == line or len(line) > most


def test_what_moves_a_cursor_or_hides_text_is_shown_as_its_escape() -> None:
    assert one_line("a\x1b]0;title\x07b") == r"a\x1b]0;title\x07b"
    assert one_line("a\x9bb\u202ec\udcff") == r"a\x9bb\u202ec\udcff"
    assert one_line("  two\n lines\t here ") == "two lines here"
    assert one_line("x" * 10**6) == "x" * LONGEST + "..."
    assert one_line("é 目 1x2 [9.1, 9.2]") == "é 目 1x2 [9.1, 9.2]"


def test_a_line_of_a_traceback_keeps_its_spaces_and_a_long_list_is_named_by_its_first_items_and_its_number() -> None:
    assert escaped("    File 'x'\t1") == "    File 'x'    1"
    assert listed([1, 2, 3]) == "1, 2, 3"
    assert listed(range(65_536)) == "0, 1, 2, 3, 4, 5, 6, 7, ... (65,536 in all)"
