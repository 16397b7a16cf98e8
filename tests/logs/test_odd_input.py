"""Logs in other encodings, damaged logs, and folders that no log belongs in: each a note, and the rest goes on."""

import gzip
import io
import os
from pathlib import Path
from typing import Any

import pytest

from runner.logs import sources
from runner.logs.dialect import built_in
from runner.logs.reading import read_log
from tests.support.logs import read_text as read

LOG = (
    b"Train Epoch: 1 [59520/60000 (99%)]\tLoss: 0.0639\r\n\r\n"
    b"Test set: Average loss: 0.05, Accuracy: 9848/10000 (98%)\r\n"
)


def collected(path: Path) -> dict[str, dict[str, Any]]:
    return {log["log"]: log for log, _ in sources.of_path(path, built_in(), {})}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_log_in_an_encoding_of_windows_is_read(encoding: str) -> None:
    found = read(LOG.decode().encode(encoding))
    assert (found["epochs_seen"], found["final_eval"]["value"]) == ([1], 98.48)
    assert found["final_eval"]["line"] == 3


def test_a_log_of_utf_16_is_read_over_the_ends_of_blocks() -> None:
    noise = "一行没有任何意义的文字 \U0001f600\n" * 40_000
    found = read(b"\xff\xfe" + (noise + LOG.decode()).encode("utf-16-le"))
    assert (found["final_eval"]["value"], found["line_count"]) == (98.48, 40_003)


CHINESE = "总共运行耗时: 559.67秒，acc: 88.1912%。\r\n"


def test_chinese_in_the_encoding_of_windows_is_read_with_a_note() -> None:
    found = read((LOG.decode() + CHINESE).encode("gb18030"))
    assert (found["wall_time_s"]["value"], found["wall_time_s"]["line"]) == (559.67, 4)
    assert any("gb18030" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("text", "encoding"),
    [("Эпоха 1, точность: 0.97, время обучения: 12", "cp1251"), ("Durée: 12 s, précision: 0.97", "latin-1")]
    + [("Größe: 12 für das Training, Genauigkeit höher", "cp1252"), ("エポック 1: 精度 0.97", "shift-jis")],
)
def test_bytes_of_another_encoding_are_not_taken_for_chinese(text: str, encoding: str) -> None:
    found = read(LOG + (text + "\n").encode(encoding))
    assert not any("was read as" in note for note in found["notes"])
    assert found["final_eval"]["value"] == 98.48


def test_a_chinese_line_in_utf_8_with_a_torn_one_stays_utf_8() -> None:
    found = read(CHINESE.encode() * 3 + CHINESE.encode()[:5] + b"\n")
    assert (found["wall_time_s"]["value"], found["notes"]) == (559.67, [])


def test_nul_bytes_and_bytes_of_no_encoding_hide_no_line() -> None:
    found = read(b"\0" * 5_000 + b"\xff\xfe\x80\n" + LOG.replace(b"Test", b"\0\0Test") + b"\0" * 3_000)
    assert found["final_eval"]["value"] == 98.48
    assert "NUL bytes were left out" in found["notes"]


@pytest.mark.parametrize("place", ["٣٢٠", "３２１", "3٢1", "1,٣٢٠"])
def test_numbers_in_the_digits_of_other_scripts_are_read(place: str) -> None:
    found = read(f"Train Epoch: 1 [{place}/60000 (1%)]\tLoss: 0.3\n".encode() * 3)
    assert (found["epochs_seen"], found["last_train_loss"]["value"]) == ([1], 0.3)


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (gzip.compress(LOG), "gzip -dc FILE | runner collect -"),
        (gzip.compress(bytes(20_000_000)), "compressed"),
        (b"mnist.log".ljust(257, b"\0") + b"ustar\x0000" + LOG, "an archive: not read; unpack it"),
        (b"PK\x03\x04" + LOG, "an archive: not read; unpack it"),
        (os.urandom(50_000), "binary data"),
    ],
    ids=["gzip", "gzip bomb", "tar", "zip", "noise"],
)
def test_what_is_packed_has_one_note_that_says_the_way_out(data: bytes, note: str) -> None:
    found = read(data)
    assert found["status"] is None
    (said,) = found["notes"]
    assert note in said


def test_what_is_hidden_below_a_folder_is_left_out(tmp_path: Path) -> None:
    for name in (".git/hooks/pre-commit.sample", "runs/.state", "runs/a.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(LOG)
    assert list(collected(tmp_path)) == ["runs/a.log"]
    assert list(collected(tmp_path / ".git")) == ["hooks/pre-commit.sample"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_may_not_be_read_has_a_note(tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0)
    (tmp_path / "secret.log").write_bytes(LOG)
    (tmp_path / "secret.log").chmod(0)
    notes = {name: found["notes"] for name, found in collected(tmp_path).items()}
    (tmp_path / "shut").chmod(0o700)
    assert notes == {name: ["not read: Permission denied"] for name in ("secret.log", "shut")}


def test_a_file_that_grows_is_read_as_far_as_it_went(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    path.write_bytes(LOG)
    whole = read_log(path).bytes

    class Growing(io.FileIO):
        """An open file to which somebody appends at each read."""

        def read(self, size: int | None = -1, /) -> bytes | None:  # type: ignore[override]
            with path.open("ab") as more:
                more.write(LOG)
            return super().read(size)

    monkeypatch.setattr("runner.logs.reading.files.open_file", lambda _: Growing(path))
    reading = read_log(path)
    assert reading.bytes == whole
    assert reading.notes == [f"the file grew while it was read; its first {whole:,} bytes were"]


def test_escapes_of_a_terminal_in_values_do_not_come_out_again() -> None:
    found = read(b"Total training time: 5 s. \x1b]0;x\x07 \x9b31m \xc2\x9b\xe2\x80\xae\nKilled\n")
    assert found["wall_time_s"]["value"] == 5
    assert found["wall_time_s"]["text"].isprintable()
    assert all(note.isprintable() for note in found["notes"])
