"""Bytes of any size -> blocks of whole lines, of bounded length.

A carriage return ends a line on the screen as a newline does: so each state of a progress bar is a line of its own, and
the last one counts. Line numbers count newlines, as editors do.
"""

import codecs
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from runner.logs import origin

BLOCK = 1 << 18
LONGEST = 65_536
"""Bytes of one line; of a longer one only the beginning is looked at."""
_ANSI = re.compile(rb"\x1b(?:\[[0-9;?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)|[@-Z\\^_])")
_LONGEST_PREFIX = 1_000
_COMPRESSED = (
    (b"\x1f\x8b", "gzip", "gzip -dc"),
    (b"BZh", "bzip2", "bzip2 -dc"),
    (b"\xfd7zXZ", "xz", "xz -dc"),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -dc"),
)
_ARCHIVES = (b"PK\x03\x04", b"PK\x05\x06", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07")
_ODD = bytes(range(8)) + bytes(range(14, 27)) + b"\x7f"
"""Bytes that no text has. Progress bars have backspaces; logs have NUL after a crash of their disk, or in UTF-16."""
_BACK = re.compile(rb"\x08+\r?")
"""Backspaces, with which progress bars go back to the beginning of the line."""
_BEHIND_BRACKET = re.compile(rb"\](?=[A-Za-z{*^`])")
_BAR_ENDS = re.compile(rb"(?:<[\d:?]{1,9}|it/s|s/it)(?:, [^\[\]\r\n]{0,300})?\]$")
"""The end of a progress bar of tqdm, on which something else may follow: `7.00s/it]slurmstepd: error: ...`."""
_LONGEST_END = 320
_BEGINNING = 8_192
"""Bytes at the beginning of an input that show what it is."""
_MANY, _FEW = 0.3, 0.02
_DOCKER = b'{"log":"'
"""How each line begins of a file in which Docker keeps the output of a container."""
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
    """Reads blocks; what was cut and what looks binary is counted."""

    def __init__(self, read: Callable[[int], bytes], most: int | None = None) -> None:
        """Take a function that reads up to n bytes, and how many bytes to read at most."""
        self._read = read
        self._left = most
        self.bytes = 0
        self.cut = 0
        """How many lines were longer than `LONGEST`."""
        self.ends_with_newline = True
        self.line = 1
        """The number of the line that begins next."""
        self.unreadable = ""
        """Why the input is no text, if so."""
        self.nuls = 0
        """How many NUL bytes were left out."""
        self.encoding = ""
        """An encoding that nothing in the file names and that its bytes show."""
        self._decoder: codecs.IncrementalDecoder | None = None
        self._prefix = b""
        """What stood before the line that the last block ended in, if it was a launcher's."""

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
            end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
            end = _before_observed(data, end)
            if end:
                yield self._block(data[:end])
            begun = data[end:]
            if len(begun) > LONGEST:
                self.cut += 1
                yield self._block(begun[:LONGEST])
                begun, skipping = b"", True
        if begun:
            yield self._block(begun)

    def _chunk(self) -> bytes:
        size = BLOCK if self._left is None else min(BLOCK, self._left)
        chunk = self._read(size) if size and not self.unreadable else b""
        if self._left is not None:
            self._left -= len(chunk)
        first = not self.bytes
        self.bytes += len(chunk)
        if first and chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            self._decoder = codecs.getincrementaldecoder("utf-16")("replace")
        elif first and (encoding := _utf16_of(chunk)):
            self.encoding = encoding
            self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        elif first and chunk.startswith(codecs.BOM_UTF8):
            chunk = chunk[len(codecs.BOM_UTF8) :] or b" "
        if self._decoder:
            chunk = self._decoder.decode(chunk, final=not chunk).encode("utf-8", "replace")
        if first and chunk and (why := why_unreadable(chunk)):
            self.unreadable = why
            return b""
        if b"\0" in chunk:
            text = chunk.translate(None, b"\0")
            self.nuls += len(chunk) - len(text)
            chunk = text or b" "
        if chunk:
            self.ends_with_newline = chunk.endswith((b"\n", b"\r"))
        return chunk

    def _block(self, data: bytes) -> Block:
        if _is_gb18030(data):
            self.encoding = "gb18030"
            data = data.decode("gb18030", "replace").encode("utf-8", "replace")
        if _KEY in data:
            data = _without_observed(data)
        if data.startswith(_DOCKER):
            data = b"\n".join(map(_of_container, data.split(b"\n")))
        if b"\x1b" in data:
            data = _ANSI.sub(b"", data)
        if b"\b" in data:
            data = _BACK.sub(b"\r", data)
        if b"<0" in data or b"it/s" in data or b"s/it" in data:
            data = _BEHIND_BRACKET.sub(_with_return, data)
        if self._prefix or (b"\r" in data and data.count(b"\r") != data.count(b"\r\n")):
            data = self._states(data)
        block = Block(data, self.line)
        self.line += data.count(b"\n")
        return block

    def _states(self, data: bytes) -> bytes:
        """Repeat the prefix of a launcher, which stands once before a progress bar, before each state of the bar."""
        lines = data.split(b"\n")
        for number, line in enumerate(lines):
            begun = self._prefix if number == 0 else b""
            states = line.rstrip(b"\r")
            if not begun and b"\r" not in states and number < len(lines) - 1:
                continue
            if not (prefix := begun):
                text = text_of(states[:_LONGEST_PREFIX].partition(b"\r")[0])
                prefix = text[: len(text) - len(origin.split(text)[1])].encode()
            if prefix:
                head = prefix if begun and not states.startswith(prefix) else b""
                lines[number] = head + states.replace(b"\r", b"\r" + prefix) + line[len(states) :]
            self._prefix = prefix
        if not lines[-1]:
            self._prefix = b""
        return b"\n".join(lines)


def _before_observed(data: bytes, end: int) -> int:
    """Return the end, or where the line begins that the program may go on with after what the observer wrote there."""
    begun = _begun(data, end)
    if begun < end or not _EVENT.startswith(data[end : end + len(_EVENT)]):
        return begun
    begin = data.rfind(b"\n", 0, max(0, end - 1)) + 1  # the observer may write next
    return _begun(data, begin) if end - begin < LONGEST else end


def _begun(data: bytes, end: int) -> int:
    while (event := data.rfind(b"\n" + _EVENT, 0, end)) >= 0 and _OBSERVED.fullmatch(data, event, end):
        end = data.rfind(b"\n", 0, event) + 1
    return end


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


def why_unreadable(data: bytes) -> str:
    """Return why the beginning of a file is no text, and what to do; an empty text if it is one."""
    head = data[:_BEGINNING]
    for magic, name, command in _COMPRESSED:
        if head.startswith(magic):
            return f"it is compressed by {name}: not read; `{command} FILE | runner collect -` reads it"
    if head.startswith(_ARCHIVES) or head[257:262] == b"ustar":
        return "it is an archive: not read; unpack it, and collect the folder"
    text = head.translate(None, b"\0")
    odd = len(text) - len(text.translate(None, _ODD))
    return "it is binary data, no text: not read" if odd * 20 >= len(text) else ""


def text_of(line: bytes) -> str:
    """Decode a line; bytes that are not UTF-8 are replaced."""
    return line.decode("utf-8", "replace")


def _utf16_of(data: bytes) -> str:
    """Return the encoding of a beginning in which every second byte is NUL, as of UTF-16 without its mark."""
    head = data[: min(len(data), _BEGINNING) // 2 * 2]
    if len(head) < 8:  # too few to say
        return ""
    odd, even = (head[place::2].count(0) / (len(head) // 2) for place in (1, 0))
    if odd > _MANY and even < _FEW:
        return "utf-16-le"
    return "utf-16-be" if even > _MANY and odd < _FEW else ""


def _is_gb18030(data: bytes) -> bool:
    """Return whether whole lines are mostly not UTF-8, and have Chinese words in the encoding of Chinese Windows."""
    with suppress(UnicodeDecodeError):
        data.decode()
        return False
    lines = [line for line in data.splitlines() if not line.isascii()]
    broken = [line for line in lines if "\ufffd" in text_of(line)]
    return 2 * len(broken) > len(lines) and bool(_CHINESE.search(b"\n".join(broken).decode("gb18030", "replace")))


def _of_container(line: bytes) -> bytes:
    """Return what the container printed in a line of Docker's file, behind its time; another line stays as it is."""
    try:
        entry = json.loads(line) if line.startswith(_DOCKER) else None
    except (ValueError, RecursionError):
        return line
    if not isinstance(entry, dict) or not all(isinstance(entry.get(key), str) for key in ("log", "stream", "time")):
        return line
    text = f"{entry['time']} {entry['log'].rstrip()}".replace("\n", " ").replace("\0", "")
    return text.encode("utf-8", "replace")


class Tail:
    """The last bytes of a log."""

    def __init__(self) -> None:
        self._data = b""
        self._line = 1
        """The number of the line after the data."""

    def add(self, block: Block) -> None:
        """Take the next block."""
        data = self._data + block.data if len(block.data) < LONGEST else block.data
        self._data = data[-LONGEST:]
        self._line = block.line + block.data.count(b"\n")

    @property
    def lines(self) -> list[tuple[int, str]]:
        """Return the last lines, each with its number."""
        return list(enumerate(text_of(self._data).split("\n"), self._line - self._data.count(b"\n")))
