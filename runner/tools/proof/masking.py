"""What is private in a record, and what stands for it in a bundle: always the same word for the same thing.

Masked are home directories, the folders of the project and of the results, host names, and the random ids of machines,
as far as records name them; and secrets that show themselves by their form or name. Nothing else is: what a program
prints, addresses of networks, uncommitted changes and the project's files stay as they are, and the bundle says so. A
host whose name is also a word of a run's definition is masked only where it is named as a host.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import msgspec

from runner.core.masking import Masker
from runner.records.events import TOKEN
from runner.records.schema import Record

_HOME = re.compile(rb"/(?:home|Users)/(?!user\b)[^/\s\"'\\:,;<>|]+")
_EVENT = re.escape(TOKEN) + rb"[^\n]*"
_NAMED = re.compile(rb'("(?:host|machine)": ?")([^"\\]{2,253})"')
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

    def __init__(self, records: Collection[Record], folders: dict[Path, str]) -> None:
        hosts: set[str] = set()
        machines: set[str] = set()
        for record in records:
            launch = record.launch
            facts = [rank.facts for rank in record.ranks]
            hosts |= {_word(launch.host.get("name")), _word(launch.runner.get("host"))}
            hosts |= {_word(one.get("host")) for one in facts}
            machines |= {_word(one.get("machine")) for one in (launch.host, *facts)}
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
        self._hidden = _hidden(self._words, records)
        self._of_places = _pattern(self._places, ())
        self._of_all = _pattern(self._places, self._hidden)
        self._of_printed = _pattern(self._places, self._hidden, _EVENT)

    def apply(self, data: bytes) -> bytes:
        """Return a text with a word in place of each folder, and of each machine that no run names otherwise."""
        return self._replaced(self._of_all, data)

    def printed(self, data: bytes) -> bytes:
        """Return what processes printed, masked: in event lines a machine only where it is named as such."""
        return self._replaced(self._of_printed, data)

    def text(self, text: str) -> str:
        """Return a text of a JSON document, masked as `apply` does."""
        return _through(self.apply, text)

    def folders(self, text: str) -> str:
        """Return a text of a JSON document with only its folders masked."""
        return _through(lambda data: self._replaced(self._of_places, data), text)

    def name(self, text: str) -> str:
        """Return the word that stands for a machine's name."""
        found = self._words.get(text.encode("utf-8", "surrogateescape"))
        return self.folders(text) if found is None else found.decode()

    def _replaced(self, pattern: re.Pattern[bytes] | None, data: bytes) -> bytes:
        if pattern:
            data = pattern.sub(self._word_for, data)
        return _HOME.sub(b"/home/user", data)

    def _word_for(self, found: re.Match[bytes]) -> bytes:
        if found[0].startswith(TOKEN):
            line = self._replaced(self._of_places, found[0])
            return _NAMED.sub(lambda one: one[1] + self._words.get(one[2], one[2]) + b'"', line)
        return self._places.get(found[0]) or self._words[found[0]]


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


def _pattern(places: Iterable[bytes], words: Iterable[bytes], first: bytes = b"") -> re.Pattern[bytes] | None:
    """Match whole folders and whole words, the longest first, and what goes before both."""
    parts = [first] if first else []
    parts += [re.escape(one) + rb"(?![\w.-])" for one in sorted(places, key=len, reverse=True)]
    parts += [_whole(one) for one in sorted(words, key=len, reverse=True)]
    return re.compile(b"|".join(parts)) if parts else None


def _whole(word: bytes) -> bytes:
    return rb"(?<![\w.-])" + re.escape(word) + rb"(?![\w-])"


def _hidden(words: Iterable[bytes], records: Iterable[Record]) -> list[bytes]:
    """Return the words that no run has in its own definition: elsewhere nobody can tell what such a word means."""
    said = [
        msgspec.json.encode([one.experiment, one.program, one.target, one.device, one.axes, one.args, one.definition])
        for one in (record.launch for record in records)
    ]
    own = b"\n".join(dict.fromkeys(said))
    return [word for word in words if not re.search(_whole(word), own)]


def _through(change: Callable[[bytes], bytes], text: str) -> str:
    return change(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def _word(value: object) -> str:
    """Return a name that can be masked: no empty one, and none that stands everywhere."""
    return value if isinstance(value, str) and 1 < len(value) <= _LONGEST else ""
