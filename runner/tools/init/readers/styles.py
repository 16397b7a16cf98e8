"""How values are written for libraries that read more than words: as Python, in Hydra's grammar, or as YAML."""

import math
import re
from collections.abc import Callable

from runner.definitions.options.option import Style, spell

_PLAIN = re.compile(r"[A-Za-z_/.][\w/.@%+-]*", re.ASCII)
"""A text that every one of these grammars reads as the text that it is, unless it is one of the words below."""
_WORDS = {"true", "false", "null", "none", "nan", "inf", "infinity", "yes", "no", "on", "off", "y", "n", "~"}
_NUMBER = re.compile(r"[.+-]?[\d.][\d._eE+-]*|\.(nan|inf)", re.IGNORECASE | re.ASCII)
_BRACKETS = {"[": "]", "{": "}", "(": ")"}


def _quoting(quote: Callable[[str], str]) -> Callable[[object], str]:
    """Leave a value as it is if it is read as what it is; a text in brackets is meant as a list or mapping."""

    def write(value: object) -> str:
        if not isinstance(value, str):
            return spell(value)
        is_list = len(value) > 1 and _BRACKETS.get(value[0]) == value[-1]
        is_text = _PLAIN.fullmatch(value) and value.lower() not in _WORDS and not _NUMBER.fullmatch(value)
        return value if is_list or is_text or value.startswith("${") else quote(value)

    return write


def _quote_hydra(text: str) -> str:
    """Quote as Hydra's grammar of overrides does: backslashes are doubled only before a quotation mark."""
    doubled = re.sub(r"(\\*)'", lambda found: found[1] * 2 + r"\'", text)
    return "'" + re.sub(r"(\\+)$", lambda found: found[1] * 2, doubled) + "'"


def _write_yaml(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value).replace("inf", ".inf").replace("nan", ".nan")
    return _quoting(_quote_yaml)(value)


def _quote_yaml(text: str) -> str:
    text = text.replace("\\", r"\\").replace('"', r"\"")
    signs = (sign if sign.isprintable() else sign.encode("unicode_escape", "surrogatepass").decode() for sign in text)
    return '"' + "".join(signs) + '"'


PYTHON = Style(_quoting(repr), joined=True, truth=("True", "False"))
HYDRA = Style(_quoting(_quote_hydra), joined=True, assigns=True)
OMEGACONF = Style(_write_yaml, joined=True, assigns=True)
