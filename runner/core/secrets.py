"""Recognize secrets by name, refuse secrets as arguments, and mask the environment's secrets in texts.

A secret's name ends in `token`, `secret`, `password`, `passphrase`, `api_key`, `access_key`, `secret_key` or
`private_key`, in any case and spelling: HF_TOKEN, --hf-token, hfToken, apiKey. Vocabulary tokens (`pad_token`),
numbers, booleans and texts of fewer than 8 characters are never secrets.
"""

import json
import os
import re
import shlex
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from itertools import dropwhile, pairwise
from typing import Any
from urllib.parse import quote

from runner.core.errors import RequestError
from runner.core.text import one_line

MASK = "<masked>"
SHORTEST = 8
_NAME = re.compile(r"(token|secret|password|passphrase|(api|access|secret|private)_?key)$")
_VOCABULARY = re.compile(
    r"(?:^|_)(?:pad|eos|bos|unk|sep|cls|mask|eo[tdc]|stop|start|end|begin|special|new|image|video|audio|text|prompt"
    r"|prefix|suffix|middle|next|first|last|newline|word|sub|space)_?token$"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SET = re.compile(r"(?:export|declare|local|env)$|\w+=")


def is_secret(name: str, value: object) -> bool:
    """Return whether a value with this name is a secret."""
    if not isinstance(value, str) or len(value) < SHORTEST or value == MASK:
        return False
    spelled = re.sub(r"[-. ]", "_", _CAMEL.sub("_", name)).lower()
    if not _NAME.search(spelled) or _VOCABULARY.search(spelled):
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False


def refuse(words: Iterable[str]) -> None:
    """Raise RequestError if the words of a command line hold a secret. The error does not show the secret."""
    known = _of_environment()
    for word, following in pairwise([*words, ""]):
        name, equals, value = word.partition("=")
        if not equals and word.startswith("-") and not following.startswith("-"):
            value = following
        if is_secret(name, value):
            _refuse(name)
        if found := next((variable for variable, secret in known if secret in word), None):
            _refuse(name if equals else "an argument", f"it holds the value of {found}; ")


def refuse_args(args: Any, name: str = "") -> None:
    """Raise RequestError if a program's args, or values nested in them, hold a secret."""
    if isinstance(args, dict):
        for key, value in args.items():
            refuse_args(value, str(key))
    elif isinstance(args, list | tuple):
        refuse(word for word in args if isinstance(word, str))  # the values of `--`: `--token ...`
        for value in args:
            refuse_args(value, name)
    elif isinstance(args, str):
        refuse([f"{name}={args}"])


def refuse_script(text: str) -> None:
    """Raise RequestError if a command in a shell script has a secret as an argument. `$NAME` is allowed."""
    for line in text.replace("\\\n", " ").splitlines():
        with suppress(ValueError):  # an open quote, since a word spans lines
            words = ["" if re.match(r"([\w.+-]*=)?\$", word) else word for word in shlex.split(line, comments=True)]
            refuse(dropwhile(_SET.match, words))


def _refuse(name: str, why: str = "") -> None:
    variable = "NAME" if why else re.sub(r"\W", "_", _CAMEL.sub("_", name.strip("-+").rpartition(".")[2])).upper()
    use = f"use the environment: export {variable}=..., and read it in the program"
    raise RequestError(one_line(f"{name}: {why}secrets are not taken as arguments, which other users can read; {use}"))


def mask(data: bytes) -> bytes:
    """Replace the values of the environment's secrets with `MASK`, whatever name the text gives them."""
    known = _pattern(_of_environment())
    return known.sub(MASK.encode(), data) if known else data


def mask_text(text: str) -> str:
    """Mask text as `mask` masks bytes."""
    return mask(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def _of_environment() -> tuple[tuple[str, str], ...]:
    found = ((name, value) for name, value in os.environ.items() if is_secret(name, value))
    return tuple((name, line) for name, value in found for line in value.splitlines() if len(line) >= SHORTEST)


@cache
def _pattern(known: tuple[tuple[str, str], ...]) -> re.Pattern[bytes] | None:
    """Return a pattern that matches the secrets, or None if there are none.

    It matches a secret as it is, as JSON, Python or a URL writes it, or cut off before `...`.
    """
    forms = set()
    for _, value in known:
        written = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
        raw = os.fsencode(value)
        forms |= {*written, *(json.dumps(form)[1:-1] for form in written)}
        forms |= {repr(value)[1:-1], repr(raw)[2:-1], quote(raw, ""), quote(raw)}
    # One that is cut off comes first: it may begin with another secret.
    patterns = [rf"{re.escape(form[:SHORTEST])}[^\s\"']*?(?=\.\.\.)" for form in sorted(forms)]
    patterns += [re.escape(form) for form in sorted(forms, key=len, reverse=True)]
    return re.compile("|".join(patterns).encode("utf-8", "surrogateescape")) if patterns else None
