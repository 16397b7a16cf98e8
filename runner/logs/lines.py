"""Split bytes of any size into blocks of whole lines of bounded length.

Line numbers count newlines, as editors do.
"""

import codecs
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

BLOCK = 1 << 18
LONGEST = 65_536
"""Maximum bytes read of a line."""
_ANSI = re.compile(rb"\x1b(?:\[[0-9;?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)|[@-Z\\^_])")
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"PK\x05\x06")
_ODD = bytes(range(8)) + bytes(range(14, 27)) + b"\x7f"
"""Bytes of binary files. Text may hold backspaces (progress bars), and NUL bytes after a disk crash."""
_BEGINNING = 8_192
"""Bytes inspected to recognise binary input."""
_BACK = re.compile(rb"\x08+\r?")
"""Backspaces of progress bars, which return to the beginning of the line."""
_BAR = re.compile(rb"((?:<[\d:?]{1,9}|it/s|s/it)(?:, [^\[\]\r\n]{0,300})?\])(?=[A-Za-z{*^`])")
"""End of tqdm's progress bar with other output behind it: `7.00s/it]slurmstepd: error: ...`."""
_EVENT, _KEY = b":::MLLOG", b'"key": "observed"'
_TEE = rb"\[default\d{1,6}\]:"
"""Prefix that torchrun puts before each line in a pod's log."""
_OBSERVED = re.compile(rb"\n(%s|)%s [^\n]*%s[^\n]*\n\1" % (_TEE, _EVENT, _KEY))
"""Event of trainkit/observer, possibly within an unfinished line of the program."""
_PREFIX, _BEGIN = re.compile(rb"^%s" % _TEE), re.compile(rb"(?:%s)?%s" % (_TEE, _EVENT))
_LONGEST_TEE = 17


class Block(NamedTuple):
    """Block of whole lines; `line` is the number of the first line."""

    data: bytes
    line: int
    is_torn: bool = False
    """Whether the end of the last line is missing."""


class Lines:
    """Reader that makes blocks from a function that reads up to n bytes, and counts bytes and lines."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self.bytes = 0
        self.line = 1
        """Number of the next line."""
        self.ends_with_newline = True
        self.is_unreadable = False
        self.cut = 0
        """Number of lines longer than `LONGEST`."""
        self.notes: dict[str, None] = {}
        """Notes on changes to the input and on unreadable input."""
        self._decoder: codecs.IncrementalDecoder | None = None

    def blocks(self) -> Iterator[Block]:
        """Yield all blocks of the input. Binary input has no blocks."""
        begun = b""
        skipping = False
        while chunk := self._read(BLOCK):
            chunk = self._text(chunk)
            if self.is_unreadable:
                return
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
                yield self._block(data[:end])
            if len(begun) > LONGEST:
                self.cut += 1
                yield self._block(begun[:LONGEST], is_torn=True)
                begun, skipping = b"", True
        if begun:
            yield self._block(begun, is_torn=not self.ends_with_newline)

    def _text(self, chunk: bytes) -> bytes:
        is_first = not self.bytes
        self.bytes += len(chunk)
        if is_first and chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            self._decoder = codecs.getincrementaldecoder("utf-16")("replace")
        if self._decoder:
            chunk = self._decoder.decode(chunk).encode("utf-8", "replace")
        if is_first and _is_binary(chunk[:_BEGINNING]):
            self.is_unreadable = True
            self.notes["not read: compressed, an archive, or not text; unpack it first"] = None
        elif b"\0" in chunk:
            self.notes["NUL bytes were left out"] = None
            chunk = chunk.replace(b"\0", b"")
        self.ends_with_newline = chunk.endswith((b"\n", b"\r"))
        return chunk

    def _block(self, data: bytes, *, is_torn: bool = False) -> Block:
        if _KEY in data:
            data = _without_observed(data)
        if b"\x1b" in data:
            data = _ANSI.sub(b"", data)
        if b"\b" in data:
            data = _BACK.sub(b"\r", data)
        if b"it/s" in data or b"s/it" in data or b"<0" in data:
            data = _BAR.sub(rb"\1\r", data)
        block = Block(data, self.line, is_torn)
        self.line += data.count(b"\n")
        return block


def _end_of_lines(data: bytes) -> int:
    """Return where to cut the data: after a whole line, and not next to an event of trainkit/observer.

    Such an event may split a line of the program.
    """
    end = last = data.rfind(b"\n") + 1
    if len(data) > LONGEST and not end:
        end = last = data.rfind(b"\r") + 1
    while end:
        begin = data.rfind(b"\n", 0, end - 1) + 1
        tail = data[end : end + _LONGEST_TEE + len(_EVENT)]
        after = _PREFIX.sub(b"", tail, 1)
        is_before = after[: len(_EVENT)] == _EVENT[: len(after)] or (tail[:1] == b"[" and len(tail) < _LONGEST_TEE)
        if not is_before and not (_BEGIN.match(data, begin) and _KEY in data[begin:end]):
            return end
        end = begin
    return last if len(data) > LONGEST else 0


def _without_observed(data: bytes) -> bytes:
    text, at = bytearray(), 0
    for event in _OBSERVED.finditer(data):
        text += data[at : event.start()]
        at, begin = event.start(), text.rfind(b"\n") + 1
        if text.startswith(event[1], begin):  # otherwise another rank printed in between
            text[begin:begin] = b"\n\n"
            at = event.end()
    return bytes(text + data[at:])


def _is_binary(head: bytes) -> bool:
    text = head.replace(b"\0", b"")
    odd = len(text) - len(text.translate(None, _ODD))
    return head.startswith(_PACKED) or head[257:262] == b"ustar" or (bool(head) and odd * 20 >= len(text))
