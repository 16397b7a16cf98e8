"""What a secret is: known by the name of a value, or by the form of well-known keys.

The forms are those that their issuers document: AWS access key ids, tokens of GitHub, GitLab, Hugging Face, OpenAI,
Anthropic, Slack and Google, JSON Web Tokens (RFC 7519), private keys in PEM (RFC 7468), and passwords in URLs
(RFC 3986, 3.2.1).
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

MASK = "<masked>"
"""What stands for a secret."""
_LONGEST_NAME = 100
_RANDOM_LENGTH = 20
_RANDOM_LETTERS = 12
_HEADER = r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_FORMS = tuple(
    (hints, re.compile(pattern))
    for hints, pattern in (
        (("akia", "asia", "abia", "acca"), r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),  # AWS
        (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b"),  # GitHub
        (("github_pat_",), r"\bgithub_pat_[A-Za-z0-9_]{22,255}\b"),
        (("glpat-",), r"\bglpat-[\w-]{20,255}"),  # GitLab
        (("hf_", "api_org_"), r"\b(?:hf|api_org)_[A-Za-z0-9]{30,100}\b"),  # Hugging Face
        (("sk-",), r"\bsk-(?=[\w-]{0,200}[0-9])(?=[\w-]{0,200}[A-Z])[\w-]{20,250}"),  # OpenAI, Anthropic
        (("xox",), r"\bxox[abeoprs]-[A-Za-z0-9-]{10,250}"),  # Slack
        (("hooks.slack",), r"hooks\.slack\.com/services/(?P<secret>[A-Za-z0-9/]{20,200})"),
        (("aiza",), r"\bAIza[0-9A-Za-z_-]{35}(?![\w-])"),  # Google
        (("eyj",), r"\beyJ[\w-]{10,4000}\.eyJ[\w-]{10,4000}\.[\w-]{10,4000}"),  # JSON Web Tokens
        (("private key",), _HEADER + r"(?:\s|\\+[nr])[^-]{16,20000}(?:-----END [A-Z0-9 ]{1,60}-----)?"),
        (("://",), r"://[^\s/:@\"'<>\\{}$]{0,200}:(?P<secret>[^\s/@\"'<>\\{}$]{1,200})(?=@[\w\[])"),  # passwords
    )
)
"""Of each kind of secret words in small letters of which one stands in it, and its pattern.

The group `secret` of a pattern is the secret; without one, all of it is.
"""
_KEYS = ("api", "access", "secret", "private", "signing", "encryption", "ssh", "wandb")
_NAMES = rf"passw(?:or)?d|passphrase|secrets?|(?:{'|'.join(_KEYS)})[_-]?key|credentials?|token"
_HINTS = ("passw", "passphrase", "secret", "credential", "token", *(f"{key}{sep}key" for key in _KEYS for sep in "_-"))
_HINTS += tuple(f"{key}key" for key in _KEYS)
"""Words in small letters of which one stands in each name of a secret."""
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
def _is_secret_name(name: str) -> bool:
    """Return whether a name is that of a secret, for example `hf_token`, `db-password` or `apiKey`."""
    if len(name) > _LONGEST_NAME:
        return False
    spelled = _CAMEL.sub("_", name).lower().replace("-", "_")
    return _NAME.fullmatch(spelled) is not None and not _VOCABULARY.fullmatch(spelled)


def is_secret(name: str, value: object) -> bool:
    """Return whether a value with this name is a secret.

    Switches and empty values are none, nor are numbers of tokens and words of a vocabulary, as `[PAD]`.
    """
    if value in (None, "", MASK) or isinstance(value, bool) or not _is_secret_name(name):
        return False
    if not name.lower().endswith("token"):
        return True
    return not isinstance(value, int | float) and not (isinstance(value, str) and _OF_VOCABULARY.fullmatch(value))


def may_hold_secrets(lowered: bytes) -> bool:
    """Return whether a text, in small letters, may hold a secret: a quick look before the long one."""
    hints = (hint for hints, _ in _FORMS for hint in hints)
    return any(word.encode() in lowered for word in (*hints, *_HINTS))


def find_secrets(text: str) -> Iterator[tuple[int, int]]:
    """Find where secrets stand, by their form, or as a quoted random value that is assigned to their name.

    They come kind by kind, and one may lie in another.
    """
    lowered = text.lower()
    for hints, pattern in _FORMS:
        if any(hint in lowered for hint in hints):
            group = "secret" if "secret" in pattern.groupindex else 0
            yield from (match.span(group) for match in pattern.finditer(text))
    for match in _assigned(text, lowered):
        if match["quote"] and _is_random(match["value"]):
            yield match.span("value")


def find_assigned(text: str) -> Iterator[tuple[int, int]]:
    """Find where literals stand that are assigned to the name of a secret, as in `--token abc1` or `"token": "abc"`.

    A literal is quoted, stands behind an option, or has a digit: other words may be names of code.
    """
    for match in _assigned(text, text.lower()):
        literal = match["quote"] or match["sign"].isspace() or any(letter.isdigit() for letter in match["value"])
        if literal and match["value"] not in _NO_VALUES:
            yield match.span("value")


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
    elif isinstance(value, str) and (shown := [value[slice(*span)] for span in find_secrets(value)]):
        found.setdefault(path, []).extend(shown)


def _assigned(text: str, lowered: str) -> Iterator[re.Match[str]]:
    """Yield the values that are assigned to the name of a secret."""
    if not any(hint in lowered for hint in _HINTS):
        return
    for match in _ASSIGNED.finditer(text):
        begin, least = match.start(), max(0, match.start() - _LONGEST_NAME)
        while begin > least and (text[begin - 1].isalnum() or text[begin - 1] in "_-."):
            begin -= 1
        name = text[begin : match.start("end")]
        if match["sign"].isspace() and not name.startswith("--"):
            continue
        if is_secret(name.strip("-.").rpartition(".")[2], match["value"]):
            yield match


def _is_random(value: str) -> bool:
    """Return whether a value looks like drawn by chance: long, with digits and letters of both cases, and no words."""
    kinds = (str.isdigit, str.isupper, str.islower)
    return (
        len(value) >= _RANDOM_LENGTH
        and all(any(kind(letter) for letter in value) for kind in kinds)
        and len(set(value)) >= _RANDOM_LETTERS
        and not re.search(r"[a-z]{7}|[/.:].*[/.:]|[-_ ]\w+[-_ ]\w+[-_ ]", value)
    )
