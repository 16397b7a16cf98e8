"""Logs in other encodings, and damaged logs: each a note, and the rest is read."""

import gzip
import os

import pytest

from tests.support.logs import read_text as read

LOG = (
    b"Train Epoch: 1 [59520/60000 (99%)]\tLoss: 0.0639\r\n\r\n"
    b"Test set: Average loss: 0.05, Accuracy: 9848/10000 (98%)\r\n"
)
NOISE = "一行没有任何意义的文字 \U0001f600\n" * 40_000


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (LOG.decode().encode("utf-8-sig"), 3),
        (LOG.decode().encode("utf-16"), 3),
        (b"\xff\xfe" + (NOISE + LOG.decode()).encode("utf-16-le"), 40_003),
        (b"\0" * 5_000 + b"\xff\xfe\x80\n" + LOG.replace(b"Test", b"\0\0Test") + b"\0" * 3_000, 4),
    ],
    ids=["a byte order mark", "utf-16", "many blocks", "NUL bytes"],
)
def test_odd_encodings_and_bytes_hide_no_line(data: bytes, line: int) -> None:
    found = read(data)
    assert (found["final_eval"]["value"], found["final_eval"]["line"], found["epochs_seen"]) == (98.48, line, [1])
    assert ("NUL bytes were left out" in found["notes"]) == (line == 4)


@pytest.mark.parametrize("place", ["٣٢٠", "３２１", "3٢1", "1,٣٢٠"])
def test_numbers_in_the_digits_of_other_scripts_are_read(place: str) -> None:
    found = read(f"Train Epoch: 1 [{place}/60000 (1%)]\tLoss: 0.3\n" * 3)
    assert (found["epochs_seen"], found["last_train_loss"]["value"]) == ([1], 0.3)


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(LOG),
        gzip.compress(bytes(20_000_000)),
        b"mnist.log".ljust(257, b"\0") + b"ustar\x0000" + LOG,
        b"PK\x03\x04" + LOG,
        os.urandom(50_000),
    ],
    ids=["gzip", "gzip bomb", "tar", "zip", "noise"],
)
def test_packed_data_has_one_note_with_the_way_out(data: bytes) -> None:
    found = read(data)
    (note,) = found["notes"]
    assert "unpack it" in note
    assert found["status"] is None


def test_escapes_of_a_terminal_in_values_do_not_come_out_again() -> None:
    found = read(b"Total training time: 5 s. \x1b]0;x\x07 \x9b31m \xc2\x9b\xe2\x80\xae\nKilled\n")
    assert found["wall_time_s"]["value"] == 5
    assert all(text.isprintable() for text in (found["wall_time_s"]["text"], *found["notes"]))
