"""Secrets in args and texts: found by the name of a value, or by the form of well-known keys.

The forms are those that their issuers document: AWS access key ids, tokens of GitHub, GitLab, Hugging Face, OpenAI,
Anthropic, Slack and Google, JSON Web Tokens (RFC 7519), private keys in PEM (RFC 7468), and passwords in URLs
(RFC 3986, 3.2.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

MASK = "<masked>"
"""What stands for a secret."""
_LONGEST_NAME = 100
_RANDOM_LENGTH = 20
_RANDOM_LETTERS = 12
_HEADER = r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"


class Form(NamedTuple):
    """How secrets of one kind look; `hints` are words in small letters, of which one stands in each of them."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    """Its group `secret` is the secret; without one, all of it is."""


class Found(NamedTuple):
    """A secret in a text: what it is, and where it begins and ends."""

    kind: str
    start: int
    end: int


FORMS = tuple(
    Form(kind, hints, re.compile(pattern))
    for kind, hints, pattern in (
        ("an AWS access key id", ("akia", "asia", "abia", "acca"), r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
        ("a GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b"),
        ("a GitHub token", ("github_pat_",), r"\bgithub_pat_[A-Za-z0-9_]{22,255}\b"),
        ("a GitLab token", ("glpat-",), r"\bglpat-[\w-]{20,255}"),
        ("a Hugging Face token", ("hf_", "api_org_"), r"\b(?:hf|api_org)_[A-Za-z0-9]{30,100}\b"),
        (
            "an OpenAI or Anthropic key",
            ("sk-",),
            r"\bsk-(?=[\w-]{0,200}[0-9])(?=[\w-]{0,200}[A-Z])[\w-]{20,250}",
        ),
        ("a Slack token", ("xox",), r"\bxox[abeoprs]-[A-Za-z0-9-]{10,250}"),
        ("a Slack webhook", ("hooks.slack",), r"hooks\.slack\.com/services/(?P<secret>[A-Za-z0-9/]{20,200})"),
        ("a Google API key", ("aiza",), r"\bAIza[0-9A-Za-z_-]{35}(?![\w-])"),
        ("a JSON Web Token", ("eyj",), r"\beyJ[\w-]{10,4000}\.eyJ[\w-]{10,4000}\.[\w-]{10,4000}"),
        (
            "a private key",
            ("private key",),
            _HEADER + r"(?:\s|\\+[nr])[^-]{16,20000}(?:-----END [A-Z0-9 ]{1,60}-----)?",
        ),
        (
            "a password in a URL",
            ("://",),
            r"://[^\s/:@\"'<>\\{}$]{0,200}:(?P<secret>[^\s/@\"'<>\\{}$]{1,200})(?=@[\w\[])",
        ),
    )
)
_NAMES = "passw(?:or)?d|passphrase|secrets?|(?:api|access|secret|private|signing|encryption|ssh|wandb)[_-]?key"
_NAMES += "|credentials?|token"
_KEYS = ("api", "access", "secret", "private", "signing", "encryption", "ssh", "wandb")
_NAMED = (
    "passw",
    "passphrase",
    "secret",
    "credential",
    "token",
    *(f"{one}{sep}key" for one in _KEYS for sep in ("", "_", "-")),
)
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
_NO_VALUES = ("null", "None", "true", "false", "True", "False")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


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


def may_hold_secrets(lowered: bytes) -> bool:
    """Whether a text, in small letters, may hold a secret: a quick look before the long one."""
    hints = (hint for form in FORMS for hint in form.hints)
    return any(word.encode() in lowered for word in (*hints, *_NAMED))


def find_secrets(text: str) -> Iterator[Found]:
    """Find the secrets that a text shows by their form, or by a quoted random value that is assigned to their name.

    They come kind by kind, and one may lie in another.
    """
    lowered = text.lower()
    for form in FORMS:
        if any(hint in lowered for hint in form.hints):
            group = "secret" if "secret" in form.pattern.groupindex else 0
            for match in form.pattern.finditer(text):
                yield Found(form.kind, *match.span(group))
    for match in _assigned(text, lowered):
        if match["quote"] and _is_random(match["value"]) and (name := _name_of(text, match)):
            yield Found(f"a value of {name}", *match.span("value"))


def find_assigned(text: str) -> Iterator[tuple[int, int]]:
    """Find where literals stand that are assigned to the name of a secret, as in `--token abc1` or `"token": "abc"`.

    A literal is quoted, stands behind an option, or has a digit: other words may be names of code.
    """
    for match in _assigned(text, text.lower()):
        literal = match["quote"] or match["sign"].isspace() or any(letter.isdigit() for letter in match["value"])
        if literal and match["value"] not in _NO_VALUES and _name_of(text, match):
            yield match.span("value")


def _assigned(text: str, lowered: str) -> Iterator[re.Match[str]]:
    return _ASSIGNED.finditer(text) if any(name in lowered for name in _NAMED) else iter(())


def _name_of(text: str, match: re.Match[str]) -> str | None:
    """Return the whole name that a value is assigned to, if it is that of a secret."""
    begin, least = match.start(), max(0, match.start() - _LONGEST_NAME)
    while begin > least and (text[begin - 1].isalnum() or text[begin - 1] in "_-."):
        begin -= 1
    name = text[begin : match.start("end")]
    if match["sign"].isspace() and not name.startswith("--"):
        return None
    name = name.strip("-.").rpartition(".")[2]
    return name if is_secret(name, match["value"]) else None


def _is_random(value: str) -> bool:
    """Whether a value looks like drawn by chance: long, with digits, large and small letters, and no words in it."""
    kinds = (str.isdigit, str.isupper, str.islower)
    return (
        len(value) >= _RANDOM_LENGTH
        and all(any(kind(letter) for letter in value) for kind in kinds)
        and len(set(value)) >= _RANDOM_LETTERS
        and not re.search(r"[a-z]{7}|[/.:].*[/.:]|[-_ ]\w+[-_ ]\w+[-_ ]", value)
    )
