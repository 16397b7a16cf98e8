"""Secrets masked in texts and JSON values: those that their name or form shows, and values that are known."""

import json
import re
import shlex
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from runner.core.secrets import MASK, find_assigned, find_secrets, is_secret, may_hold_secrets

SHORTEST = 4
"""Letters of a value that is looked for in texts; a shorter one stands in too many words."""
_WHOLE_WORD = 8
_LINE = 16


class Masker:
    """Puts `MASK` in place of secrets: of those that their form or name shows, and of `values`, which are known."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.values = tuple(dict.fromkeys(value for value in values if len(value) >= SHORTEST and value != MASK))
        forms = sorted({form for value in self.values for form in _spellings(value)}, key=len, reverse=True)
        # A short one counts as a whole word only.
        known = (re.escape(form) if len(form) >= _WHOLE_WORD else rf"(?<!\w){re.escape(form)}(?!\w)" for form in forms)
        self._known = re.compile("|".join(known)) if forms else None

    def may_apply(self, data: bytes) -> bool:
        """Return whether anything in an encoded text may be a secret: a quick look before the long one."""
        return self._known is not None or may_hold_secrets(data.lower())

    def text(self, text: str, *, assigned: bool = False) -> str:
        """Mask a text; if `assigned`, also literals assigned to a secret's name in it, as in `--token abc1`."""
        if self._known:
            text = self._cut_off(self._known.sub(MASK, text))
        for start, end in _joined([*find_secrets(text), *(find_assigned(text) if assigned else ())]):
            text = text[:start] + MASK + text[end:]
        return text

    def tree(self, value: Any, *, named: bool = True, assigned: bool = False) -> Any:
        """Mask a JSON value: below a secret's name every value, and elsewhere every text as `text` does.

        Without `named` the names say nothing.
        """
        if isinstance(value, str):
            return self.text(value, assigned=assigned)
        if isinstance(value, dict):
            name = value["name"] if value.keys() == {"name", "value"} else None
            if named and isinstance(name, str) and is_secret(name, value["value"]):
                return {"name": name, "value": MASK}  # a variable of an environment, as a pod has it
            return {
                self.text(key) if isinstance(key, str) else key: _emptied(item)
                if named and is_secret(str(key), item)
                else self.tree(item, named=named, assigned=assigned)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.tree(item, named=named, assigned=assigned) for item in value]
        return value

    def _cut_off(self, text: str) -> str:
        """Mask the beginning of a known value at the end of a text that was cut there."""
        if not text.endswith("..."):
            return text
        body = text[:-3]
        for value in self.values:
            for length in range(min(len(value), len(body)), SHORTEST - 1, -1):
                if body.endswith(value[:length]):
                    return f"{body[:-length]}{MASK}..."
        return text


def _emptied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _emptied(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_emptied(item) for item in value]
    return value if value is None or isinstance(value, bool) or value == "" else MASK


def _spellings(value: str) -> set[str]:
    """Write a value as it may stand in JSON, YAML, a shell, Python or a URL, and folded into one line."""
    lines = [line.strip() for line in value.splitlines()] if "\n" in value else []
    spelled = set()
    for text in {value, " ".join(value.split()), *(line for line in lines if len(line) >= _LINE)}:
        spelled |= {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]}
    spelled |= {json.dumps(text)[1:-1] for text in spelled}
    spelled |= {value.replace("'", "''"), value.replace("$", "$$"), quote(value.encode("utf-8", "replace"), safe="")}
    spelled.add(shlex.quote(value).removeprefix("'").removesuffix("'"))
    return {text for text in spelled if len(text) >= SHORTEST}


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join spans that overlap, and return them from the last one to the first."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined[::-1]
