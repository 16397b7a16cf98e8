"""The arguments of a script as they were typed, as args of a definition."""

from collections import deque
from typing import Any

from runner.core.yaml_reader import scalar
from runner.definitions.args import REST, unfit, wrong_name
from runner.definitions.program import Program


def of_line(program: Program, line: list[str]) -> dict[str, Any]:
    """Read words as named args, if those are written as just these words again; else keep them as they are."""
    found: dict[str, Any] = {}
    words = deque(line)
    while words:
        name = words.popleft()
        name = name.removeprefix("--") or name
        value: Any = _value(words.popleft()) if words and not words[0].startswith("-") else True
        if name in found:
            value = [*(found[name] if isinstance(found[name], list) else [found[name]]), value]
        found[name] = value
    is_read = not any(map(wrong_name, found)) and program.argv(found) == line
    return found if is_read else {REST: line}


def _value(text: str) -> str | int | float:
    """Return the number that is written as it was, else the text: `007` and `1e-3` are texts."""
    value = scalar(text)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and unfit(value) is None
    return value if is_number and str(value) == text else text
