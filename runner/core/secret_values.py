"""Secrets in args and texts: found by the name of a value, by the form of well-known keys, or because they are known.

The forms are those that their issuers document: AWS access key ids, tokens of GitHub, GitLab, Hugging Face, OpenAI,
Anthropic, Slack and Google, JSON Web Tokens (RFC 7519), private keys in PEM (RFC 7468), and passwords in URLs
(RFC 3986, 3.2.1).
"""

from __future__ import annotations

import json
import re
import shlex
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MASK = "<masked>"
"""What stands for a secret."""
SHORTEST = 4
"""Letters of a value that is looked for in texts; a shorter one stands in too many words."""
_WHOLE_WORD = 8
_LONGEST_NAME = 100
_LINE = 16
_FORMS = {
    "an AWS access key id": r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b",
    "a GitHub token": r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b|\bgithub_pat_[A-Za-z0-9_]{22,255}\b",
    "a GitLab token": r"\bglpat-[\w-]{20,255}",
    "a Hugging Face token": r"\b(?:hf|api_org)_[A-Za-z0-9]{30,100}\b",
    "an OpenAI or Anthropic key": r"\bsk-(?=[\w-]{0,200}[0-9])(?=[\w-]{0,200}[A-Z])[\w-]{20,250}",
    "a Slack token": r"\bxox[abeoprs]-[A-Za-z0-9-]{10,250}",
    "a Slack webhook": r"(?<=hooks\.slack\.com/services/)[A-Za-z0-9/]{20,200}",
    "a Google API key": r"\bAIza[0-9A-Za-z_-]{35}(?![\w-])",
    "a JSON Web Token": r"\beyJ[\w-]{10,4000}\.eyJ[\w-]{10,4000}\.[\w-]{10,4000}",
    "a private key": r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:\s|\\+[nr])[^-]{16,20000}(?:-----END [A-Z0-9 ]{1,60}-----)?",
    "a password in a URL": r"(?<=://)[^\s/:@\"'<>\\{}$]{0,200}:[^\s/@\"'<>\\{}$]{1,200}(?=@[\w\[])",
}
_FORM = re.compile("|".join(f"(?P<f{number}>{form})" for number, form in enumerate(_FORMS.values())))
_KINDS = list(_FORMS)
_URL = f"f{_KINDS.index('a password in a URL')}"
_HINTS = (
    *("akia", "asia", "abia", "acca", "gh", "glpat-", "hf_", "api_org_", "sk-", "xox", "hooks.slack", "aiza", "eyj"),
    *("private key", "://"),
)
_NAMES = "passw(?:or)?d|passphrase|secrets?|(?:api|access|secret|private|signing|encryption|ssh|wandb)[_-]?key"
_NAMES += "|credentials?|token"
_NAMED = ("passw", "passphrase", "secret", "key", "credential", "token")
_NAME = re.compile(rf"(?:.*[_.-])?(?:{_NAMES}|access_key_id|(?:hf|hub|auth|access|api|bearer|session|refresh)token)")
# Not secrets but words of a vocabulary, as tokenizers name them.
_VOCABULARY = re.compile(
    r"(?:.*[_.-])?(?:pad|eos|bos|unk|sep|cls|mask|stop|start|end|begin|special|new|image|video|audio|text|prompt|next"
    r"|first|last|decoder_start|forced_bos|forced_eos|eot|im_start|im_end|newline|word|sub|space)_?token"
)
_OF_VOCABULARY = re.compile(r"\[[^\]\s]{0,30}\]|<[^>\s]{0,30}>")
_ASSIGNED = re.compile(
    rf"(?i)(?:{_NAMES})(?P<end>\\?[\"']?)(?P<sign>\s{{0,2}}[=:]\s{{0,2}}|\s)(?P<quote>\\?[\"']?)"
    r"(?P<value>[^\s\"',;\\(){}\[\]<>$]{4,500})"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Found(NamedTuple):
    """A secret in a text: what it is, and where it begins and ends."""

    kind: str
    start: int
    end: int


@lru_cache(10_000)
def is_secret_name(name: str) -> bool:
    """Whether a name is that of a secret, for example `hf_token`, `db-password` or `apiKey`."""
    if len(name) > _LONGEST_NAME:
        return False
    spelled = _CAMEL.sub("_", name).lower().replace("-", "_")
    return _NAME.fullmatch(spelled) is not None and not _VOCABULARY.fullmatch(spelled)


def is_secret(name: str, value: object) -> bool:
    """Whether a value with this name is a secret; switches and empty values are none, nor are numbers of tokens."""
    if value in (None, "", MASK) or isinstance(value, bool) or not is_secret_name(name):
        return False
    if name.lower().endswith("token"):
        return not isinstance(value, int | float) and not (
            isinstance(value, str) and _OF_VOCABULARY.fullmatch(value) is not None
        )
    return True


def find_secrets(text: str) -> Iterator[Found]:
    """Find the secrets that a text shows by their form, or by a quoted random value that is assigned to their name."""
    lowered = text.lower()
    if any(hint in lowered for hint in _HINTS):
        for match in _FORM.finditer(text):
            start = match.end() - len(match[0].partition(":")[2]) if match[_URL] else match.start()
            yield Found(_KINDS[int(str(match.lastgroup)[1:])], start, match.end())
    if any(name in lowered for name in _NAMED):
        for match in _ASSIGNED.finditer(text):
            if match["quote"] and _is_random(match["value"]) and _name_of(text, match):
                yield Found(f"a value of {_name_of(text, match)}", *match.span("value"))


class Masker:
    """Puts `MASK` in place of secrets: of those that their form or name shows, and of values that are known.

    Args:
        values: known secrets, wherever they stand.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.values = tuple(dict.fromkeys(value for value in values if len(value) >= SHORTEST and value != MASK))
        forms = sorted({form for value in self.values for form in _spellings(value)}, key=len, reverse=True)
        self._known = re.compile("|".join(map(_bounded, forms))) if forms else None

    def may_apply(self, data: bytes) -> bool:
        """Whether anything in an encoded text may be a secret: a quick look before the long one."""
        lowered = data.lower()
        return self._known is not None or any(word.encode() in lowered for word in (*_HINTS, *_NAMED))

    def text(self, text: str, *, assigned: bool = False) -> str:
        """Mask a text; if `assigned`, also what is assigned to a secret's name in it, as in `--token abc1`."""
        if self._known:
            text = self._cut_off(self._known.sub(MASK, text))
        spans = [(one.start, one.end) for one in find_secrets(text)]
        if assigned:
            spans += [match.span("value") for match in _ASSIGNED.finditer(text) if _is_assignment(text, match)]
        for start, end in reversed(_apart(spans)):
            text = text[:start] + MASK + text[end:]
        return text

    def tree(self, value: Any, *, named: bool = True, assigned: bool = False) -> Any:
        """Mask a JSON value: below a secret's name every value, and elsewhere every text as `text` does.

        Without `named` the names say nothing.
        """
        if isinstance(value, str):
            return self.text(value, assigned=assigned)
        if isinstance(value, dict):
            if named and _is_variable(value):
                return {"name": value["name"], "value": MASK}
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


def secrets_in(value: Any) -> dict[str, list[str]]:
    """Return the secrets in a mapping of args, by the path to each, for example `hub.token`."""
    found: dict[str, list[str]] = {}
    _collect(value, "", found, inside=False)
    return found


def _collect(value: Any, path: str, found: dict[str, list[str]], *, inside: bool) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            below = f"{path}.{key}" if path else str(key)
            _collect(item, below, found, inside=inside or is_secret(str(key), item))
    elif isinstance(value, list | tuple):
        for item in value:
            _collect(item, path, found, inside=inside)
    elif inside and value is not None and not isinstance(value, bool) and value not in ("", MASK):
        found.setdefault(path, []).append(str(value))
    elif isinstance(value, str) and (shown := [value[one.start : one.end] for one in find_secrets(value)]):
        found.setdefault(path, []).extend(shown)


def _is_variable(value: dict[Any, Any]) -> bool:
    """Whether it is a secret of an environment, as a pod has it."""
    return (
        value.keys() == {"name", "value"}
        and isinstance(value["name"], str)
        and is_secret(value["name"], value["value"])
    )


def _emptied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _emptied(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_emptied(item) for item in value]
    return value if value is None or isinstance(value, bool) or value == "" else MASK


def _spellings(value: str) -> set[str]:
    """Write a value as it may stand in JSON, YAML, a shell, Python or a URL, and folded into one line."""
    lines = [line.strip() for line in value.splitlines()] if "\n" in value else []
    plain = {value, " ".join(value.split()), *(line for line in lines if len(line) >= _LINE)}
    spelled = {
        form
        for one in plain
        for form in (one, json.dumps(one)[1:-1], json.dumps(one, ensure_ascii=False)[1:-1], repr(one)[1:-1])
    }
    spelled |= {json.dumps(one)[1:-1] for one in spelled} | {value.replace("'", "''"), value.replace("$", "$$")}
    spelled |= {
        shlex.quote(value).removeprefix("'").removesuffix("'"),
        quote(value.encode("utf-8", "replace"), safe=""),
    }
    return {one for one in spelled if len(one) >= SHORTEST}


def _bounded(form: str) -> str:
    """Match a short value as a whole word only."""
    return re.escape(form) if len(form) >= _WHOLE_WORD else rf"(?<!\w){re.escape(form)}(?!\w)"


def _name_of(text: str, match: re.Match[str]) -> str | None:
    """Return the whole name that a value is assigned to, if it is that of a secret."""
    begin = match.start()
    while (
        begin > 0 and match.start() - begin < _LONGEST_NAME and (text[begin - 1].isalnum() or text[begin - 1] in "_-.")
    ):
        begin -= 1
    name = text[begin : match.start("end")]
    if match["sign"].isspace() and not name.startswith("--"):
        return None
    name = name.strip("-.").rpartition(".")[2]
    return name if is_secret(name, match["value"]) else None


def _is_assignment(text: str, match: re.Match[str]) -> bool:
    """Whether a value is a literal: quoted, behind an option, or a word with a digit in it that is no name."""
    if _name_of(text, match) is None or match["value"] in ("null", "None", "true", "false", "True", "False"):
        return False
    value = match["value"]
    return bool(match["quote"]) or match["sign"].isspace() or any(letter.isdigit() for letter in value)


def _is_random(value: str) -> bool:
    """Whether a value looks like drawn by chance: long, with digits, large and small letters, and no words in it."""
    kinds = (str.isdigit, str.isupper, str.islower)
    return (
        len(value) >= _LINE + 4
        and all(any(kind(letter) for letter in value) for kind in kinds)
        and len(set(value)) >= 12  # noqa: PLR2004 - of about 62 letters
        and not re.search(r"[a-z]{7}|[/.:]{1}.*[/.:]{1}|[-_ ]\w+[-_ ]\w+[-_ ]", value)
    )


def _apart(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join spans that overlap."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
