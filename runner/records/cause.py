"""What a process said of its own failure: the exception at the end of what it printed, or its error file.

A Python program prints a traceback, whose last line is the cause; torch puts `[rank0]: ` before each of its lines, and
torchrun may put more there. A C++ exception that nobody caught is said by `terminate called ...` and `what():`, a
crash by `Fatal Python error` (faulthandler), and a refusal by a line that begins with `error: `. A program whose main
function has the decorator `torch.distributed.elastic.multiprocessing.errors.record` leaves a JSON file.
"""

import re
from dataclasses import dataclass, field

import msgspec

from runner.records.decode import decode

LARGEST_ERROR_FILE = 1_000_000
_FOLLOWING = 12
"""Lines after an exception that belong to it: its message may have several, and C++ adds its frames."""
TRACEBACK = "Traceback (most recent call last):"
CHAINED = ("During handling of the above exception", "The above exception was the direct cause", "Original Traceback")
_IGNORED = "Exception ignored in"
# A launcher's own exception, which says only that a worker failed.
_LAUNCHERS = re.compile(r"[\w.]{0,200}ChildFailedError|[\w.]{0,100}CalledProcessError: .{0,2000}--local[_-]rank")
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]{0,200}(?:: |:?$)")
_REFUSAL = re.compile(r"(?:[\w./-]{1,100}: )?error: \S|[\w./-]{0,200}python[\d.]{0,8}: \S")


@dataclass
class Statement:
    """What a process said of its failure: the exception in one line, and all lines of it and of what it followed."""

    cause: str | None = None
    lines: list[str] = field(default_factory=list)


def read(lines: list[str]) -> Statement:
    """Find the failure in the last lines that a process printed; in time linear in their length."""
    chain = _tracebacks(lines)
    if chain:
        cause = _sentence(chain[-1])
        return Statement(cause, [cause, *(line for block in reversed(chain) for line in block)])
    places = range(len(lines) - 1, -1, -1)
    for mark in ("what():", "Fatal Python error:"):
        if (found := next((place for place in places if mark in lines[place]), None)) is not None:
            block = lines[found : found + _FOLLOWING]
            return Statement(block[0].partition("what():")[2].strip() or block[0].strip(), block)
    refusal = next((line for line in reversed(lines) if _REFUSAL.match(line)), None)
    return Statement() if refusal is None else Statement(refusal.strip(), [refusal])


def read_error_file(data: bytes) -> Statement:
    """Read what torch's ErrorHandler wrote (torch/distributed/elastic/multiprocessing/errors/error_handler.py).

    A file that is none says nothing: the program may have written it.
    """
    try:
        message = decode(data, _ErrorFile).message
    except ValueError:
        return Statement()
    return of_message(message if isinstance(message, str) else message.message)


def of_message(text: str) -> Statement:
    """Return what an exception says, as `type: message`."""
    lines = [line for line in text[: 500 * _FOLLOWING].splitlines() if line.strip()][:_FOLLOWING]
    return Statement(_sentence(lines), lines) if lines else Statement()


class _Message(msgspec.Struct):
    message: str = ""


class _ErrorFile(msgspec.Struct):
    message: str | _Message


def _tracebacks(lines: list[str]) -> list[list[str]]:
    """Return the exceptions of the last traceback and of those that it followed from, each with its further lines."""
    chain: list[list[str]] = []
    earlier = chain
    prefix = previous = source = ""
    in_frames = chained = False
    for line in lines:
        before, found, _ = line.partition(TRACEBACK)
        if found and _IGNORED not in previous:
            earlier, chain = chain, (chain if chained or before.endswith("Original ") else [])
            prefix, in_frames, chained = before.removesuffix("Original "), True, False
        elif in_frames and line.startswith(prefix) and _EXCEPTION.match(rest := line[len(prefix) :]):
            in_frames = False
            if _LAUNCHERS.match(rest):
                chain = earlier
            else:
                chain.append([rest, source] if ":" not in rest else [rest])
        elif in_frames and line.strip(" ^~"):
            source = line.removeprefix(prefix)
        elif chain and not in_frames:
            chained = chained or any(link in line for link in CHAINED)
            if len(chain[-1]) < _FOLLOWING and not found:
                chain[-1].append(line.removeprefix(prefix))
        if line.strip():
            previous = line
    return chain


def _sentence(block: list[str]) -> str:
    """Return an exception in one line: with the first line of its message, and with NCCL's last error."""
    first, further = block[0].strip(), [line.strip() for line in block[1:]]
    if ":" not in first and further and further[0]:
        first = f"{first}: {further[0]}"  # an assertion without a message: its source
    if first.endswith(":"):
        first = f"{first} {next(filter(None, further), '')}".strip()
    if "Last error:" in further[:-1]:
        first = f"{first}; last error: {further[further.index('Last error:') + 1]}"
    return first
