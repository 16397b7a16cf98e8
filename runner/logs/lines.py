"""Bytes of any size -> blocks of whole lines, of bounded length.

A carriage return ends a line on the screen as a newline does: each state of a progress bar is a line of its own, and
the last one counts. Line numbers count newlines, as editors do.
"""

import codecs
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from runner.logs import origin

BLOCK = 1 << 18
LONGEST = 65_536
"""Bytes of one line; of a longer one only the beginning is read."""
_ANSI = re.compile(rb"\x1b(?:\[[0-9;?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)|[@-Z\\^_])")
_LONGEST_PREFIX = 1_000
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_ARCHIVES = (b"PK\x03\x04", b"PK\x05\x06", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07")
_ODD = bytes(range(8)) + bytes(range(14, 27)) + b"\x7f"
"""Bytes that no text has. Progress bars have backspaces; logs have NUL after a crash of their disk."""
_BACK = re.compile(rb"\x08+\r?")
"""Backspaces, with which progress bars go back to the beginning of the line."""
_BEHIND_BRACKET = re.compile(rb"\](?=[A-Za-z{*^`])")
_BAR_ENDS = re.compile(rb"(?:<[\d:?]{1,9}|it/s|s/it)(?:, [^\[\]\r\n]{0,300})?\]$")
"""The end of a progress bar of tqdm, on which something else may follow: `7.00s/it]slurmstepd: error: ...`."""
_LONGEST_END = 320
_BEGINNING = 8_192
"""Bytes at the beginning of an input that show what it is."""
# Words of two letters or more: one letter alone may come about where bytes of another encoding are read as Chinese.
_CHINESE = re.compile("训练|耗时|准确率|正确率|精度|加速比|损失|进程|总共|完成|开始|结束|测试|验证|时间|错误|失败|速度")
_EVENT, _KEY = b":::MLLOG", b'"key": "observed"'
_OBSERVED = re.compile(rb"\n%s [^\n]*%s[^\n]*\n" % (_EVENT, _KEY))
"""What trainkit/observer writes, perhaps within a line that the program has begun to print."""


class Block(NamedTuple):
    """Some whole lines, and the number of the first one."""

    data: bytes
    line: int


class Lines:
    """Reads blocks."""

    def __init__(self, read: Callable[[int], bytes], most: int | None = None) -> None:
        """Take a function that reads up to n bytes, and how many bytes to read at most."""
        self._read = read
        self._left = most
        self.bytes = 0
        self.line = 1
        """The number of the line that begins next."""
        self.ends_with_newline = True
        self.is_unreadable = False
        self.cut = 0
        """How many lines were longer than `LONGEST`."""
        self.notes: dict[str, None] = {}
        """What kept the input from being read as it is."""
        self._decoder: codecs.IncrementalDecoder | None = None

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of the whole input; binary data ends it at once."""
        begun = b""
        skipping = False
        while chunk := self._chunk():
            if skipping:
                at = chunk.find(b"\n") + 1
                if not at:
                    continue
                chunk, skipping = chunk[at:], False
                self.line += 1
            data = begun + chunk
            end = _end_of_lines(data)
            begun = data[end:]
            if end:
                yield (block := self._block(data[:end]))
                begun = _prefix(block.data[block.data.rfind(b"\n") + 1 :]) + begun
            if len(begun) > LONGEST:
                self.cut += 1
                yield self._block(begun[:LONGEST])
                begun, skipping = b"", True
        if begun:
            yield self._block(begun)

    def _chunk(self) -> bytes:
        size = BLOCK if self._left is None else min(BLOCK, self._left)
        chunk = self._read(size) if size and not self.is_unreadable else b""
        if self._left is not None:
            self._left -= len(chunk)
        is_first = not self.bytes
        self.bytes += len(chunk)
        if is_first and chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            self._decoder = codecs.getincrementaldecoder("utf-16")("replace")
        elif is_first and chunk.startswith(codecs.BOM_UTF8):
            chunk = chunk[len(codecs.BOM_UTF8) :] or b" "
        if self._decoder:
            chunk = self._decoder.decode(chunk, final=not chunk).encode("utf-8", "replace")
        if is_first and (why := _why_unreadable(chunk)):
            self.is_unreadable = True
            self.notes[why] = None
            return b""
        if b"\0" in chunk:
            self.notes["NUL bytes were left out"] = None
            chunk = chunk.replace(b"\0", b"") or b" "
        if chunk:
            self.ends_with_newline = chunk.endswith((b"\n", b"\r"))
        return chunk

    def _block(self, data: bytes) -> Block:
        if not data.isascii() and (text := _of_gb18030(data)):
            self.notes["it is not UTF-8, and was read as gb18030, which nothing in it names"] = None
            data = text
        if _KEY in data:
            data = _without_observed(data)
        if b"\x1b" in data:
            data = _ANSI.sub(b"", data)
        if b"\b" in data:
            data = _BACK.sub(b"\r", data)
        if b"<0" in data or b"it/s" in data or b"s/it" in data:
            data = _BEHIND_BRACKET.sub(_with_return, data)
        if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
            data = b"\n".join(map(_with_prefixes, data.split(b"\n")))
        block = Block(data, self.line)
        self.line += data.count(b"\n")
        return block


def _with_prefixes(line: bytes) -> bytes:
    """Repeat the prefix of a launcher, which stands once before a progress bar, before each state of the bar."""
    states = line.rstrip(b"\r")
    return states.replace(b"\r", b"\r" + _prefix(line)) + line[len(states) :] if b"\r" in states else line


def _prefix(line: bytes) -> bytes:
    text = text_of(line[:_LONGEST_PREFIX].partition(b"\r")[0])
    return text[: len(text) - len(origin.split(text)[1])].encode()


def _end_of_lines(data: bytes) -> int:
    """Return where the last line ends that is not torn by an event of the observer, as far as the data shows."""
    end = last = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
    while end:
        begin = data.rfind(b"\n", 0, end - 1) + 1
        is_before = data[end : end + len(_EVENT)] == _EVENT[: len(data) - end]
        if not is_before and not (data.startswith(_EVENT, begin) and _KEY in data[begin:end]):
            return end
        end = begin
    return last if len(data) > LONGEST else 0


def _without_observed(data: bytes) -> bytes:
    """Join the lines that the observer tore, with empty ones before them for their numbers' sake."""
    text, at = bytearray(), 0
    for event in _OBSERVED.finditer(data):
        text += data[at : event.start()]
        begin = text.rfind(b"\n") + 1
        text[begin:begin] = b"\n\n"
        at = event.end()
    return bytes(text + data[at:])


def _with_return(bracket: re.Match[bytes]) -> bytes:
    """Return a bracket, with a carriage return behind it if it ends a progress bar."""
    return b"]\r" if _BAR_ENDS.search(bracket.string[: bracket.end()], max(0, bracket.start() - _LONGEST_END)) else b"]"


def _why_unreadable(data: bytes) -> str:
    """Return why the beginning of a file is no text, and what to do; an empty text if it is one."""
    head = data[:_BEGINNING]
    for magic, name in _COMPRESSED.items():
        if head.startswith(magic):
            return f"it is compressed: not read; `{name} -dc FILE | runner collect -` reads it"
    if head.startswith(_ARCHIVES) or head[257:262] == b"ustar":
        return "it is an archive: not read; unpack it, and collect the folder"
    text = head.replace(b"\0", b"")
    odd = len(text) - len(text.translate(None, _ODD))
    return "it is binary data, no text: not read" if head and odd * 20 >= len(text) else ""


def text_of(line: bytes) -> str:
    """Decode a line; bytes that are not UTF-8 are replaced."""
    return line.decode("utf-8", "replace")


def _of_gb18030(data: bytes) -> bytes:
    """Return lines of Chinese Windows in UTF-8; nothing if they are UTF-8, or have no Chinese words that are known."""
    try:
        data.decode()
    except UnicodeDecodeError:
        text = data.decode("gb18030", "replace")
        return text.encode() if _CHINESE.search(text) and not _CHINESE.search(text_of(data)) else b""
    return b""
