"""What is private in a record, and what stands for it in a bundle: always the same word for the same thing.

Masked are home directories, the folders of the project and of the results, host names, and the random ids of machines,
as far as records name them; and secrets that show themselves by their form or name. Nothing else is: what a program
prints, addresses of networks and uncommitted changes stay as they are, and the bundle says so.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from runner.core.secret_values import Masker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.records.schema import Record

_HOME = re.compile(rb"/(?:home|Users)/(?!user\b)[^/\s\"'\\:,;<>|]+")
_SHARED = (Path("/"), Path("/root"), Path("/home"), Path("/tmp"))  # noqa: S108 - a name, not a place to write
_PUBLIC = {"localhost", "127.0.0.1", "::1", ""}
_LONGEST = 253
WHAT = "home directories, the folders of the project and the results, host names and ids of machines, secrets"
ASSIGNING = (".yaml", ".yml", ".json", ".toml", ".env", ".ini", ".cfg", ".diff")
"""Ends of files in which a word behind a secret's name is its value, and no code."""
_ATTEMPT = r"(?:attempts/\d+/)?"
_PRINTED = re.compile(_ATTEMPT + r"raw/(?!(?:outcome|node\d+-exit)\.json$).*", re.DOTALL)
_ARTIFACT = re.compile(_ATTEMPT + r"artifacts/.*", re.DOTALL)


class Mask:
    """Replaces what is private in the bytes of a file.

    Args:
        records: whose hosts and machines are masked.
        folders: folders of this machine, each with the word that stands for it.
    """

    def __init__(self, records: Iterable[Record], folders: dict[Path, str]) -> None:
        hosts: set[str] = set()
        machines: set[str] = set()
        for record in records:
            launch = record.launch
            facts = [rank.facts for rank in record.ranks]
            hosts |= {_word(launch.host.get("name")), _word(launch.runner.get("host"))}
            hosts |= {_word(one.get("host")) for one in facts}
            machines |= {_word(one.get("machine")) for one in facts}
            places = [one.place for one in record.outcome.exits] if record.outcome else []
            hosts |= {_word(one.get("machine")) for one in places}
        self._words: dict[bytes, bytes] = {}
        for kind, found in (("host", hosts), ("machine", machines)):
            for number, name in enumerate(sorted(found - _PUBLIC), 1):
                self._words.setdefault(name.encode("utf-8", "surrogateescape"), f"{kind}-{number}".encode())
        places_ = {**folders, **({Path.home(): "/home/user"} if Path.home() not in _SHARED else {})}
        self._places = {
            form: word.encode() for path, word in places_.items() if path not in _SHARED for form in _forms(path)
        }
        self._pattern = _pattern(self._places, self._words)

    def apply(self, data: bytes) -> bytes:
        """Return the bytes with a word in place of each private one."""
        if self._pattern:
            data = self._pattern.sub(lambda found: self._places.get(found[0]) or self._words[found[0]], data)
        return _HOME.sub(b"/home/user", data)


def without_secrets(data: bytes, *, assigned: bool = True) -> bytes:
    """Mask secrets that show themselves, also those assigned to a secret's name if `assigned`."""
    masker = Masker()
    if not masker.may_apply(data):
        return data
    text = data.decode("utf-8", "surrogateescape")
    return masker.text(text, assigned=assigned).encode("utf-8", "surrogateescape")


def holds_secrets(record: Record) -> bool:
    """Whether processes of a run got secrets that its record does not name."""
    return any(not one.startswith("request/") for one in record.launch.masked)


def is_printed(name: str) -> bool:
    """Whether a file of a run's folder is what its processes left, and not what the runner says of them."""
    return _PRINTED.fullmatch(name) is not None


def is_artifact(name: str) -> bool:
    """Whether a file of a run's folder is what its program left for itself, in any attempt."""
    return _ARTIFACT.fullmatch(name) is not None


def _forms(path: Path) -> list[bytes]:
    """Write a path as it stands in text, and as the JSON of this runner and of Python has it."""
    text = str(path)
    forms = [text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]]
    return [form.encode("utf-8", "surrogateescape") for form in dict.fromkeys(forms)]


def _pattern(places: dict[bytes, bytes], words: dict[bytes, bytes]) -> re.Pattern[bytes] | None:
    """Match whole folders and whole words, the longest first."""
    parts = [re.escape(one) + rb"(?![\w.-])" for one in sorted(places, key=len, reverse=True)]
    parts += [rb"(?<![\w.-])" + re.escape(one) + rb"(?![\w-])" for one in sorted(words, key=len, reverse=True)]
    return re.compile(b"|".join(parts)) if parts else None


def _word(value: object) -> str:
    """Return a name that can be masked: no empty one, and none that stands everywhere."""
    return value if isinstance(value, str) and 1 < len(value) <= _LONGEST else ""
