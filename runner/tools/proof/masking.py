"""What is private in a record, and what stands for it in a bundle: always the same word for the same thing.

Masked are home directories, the folders of the project and of the results, host names, and the random ids of machines,
as far as records name them; secrets are masked by `runner.core.secrets`. Nothing else is: what a program
prints, addresses of networks, uncommitted changes and the project's files stay as they are, and the bundle says so. A
host whose name is also a word of a run's definition is masked only where it is named as a host.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import msgspec

from runner.definitions.definition import hash_resolved
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
_PRINTED = re.compile(r"raw/(?!(?:outcome|node\d+-exit)\.json$).*", re.DOTALL)
_ARTIFACT = re.compile(r"artifacts/.*", re.DOTALL)
_NAMING = ("host", "machine")
_TEXTS = (
    *("reason", "doubts", "malformed", "notes", "error", "cause", "last_lines"),
    *("why", "stopped_because", "says", "words", "stack", "env"),
)
"""Keys of a record below which processes, clusters and the runner speak in sentences."""
_HOST_OPTIONS = ("hosts", "nodelist", "exclude")
_STARTED_WITH = ("args", "definition")


class Mask:
    """Replaces what is private in the bytes of a file: hosts and machines of records, and folders by their words."""

    def __init__(self, records: Collection[Record], folders: dict[Path, str]) -> None:
        hosts: set[str] = set()
        machines: set[str] = set()
        for record in records:
            launch = record.launch
            facts = [rank.facts for rank in record.ranks]
            hosts |= {_word(launch.host.get("name")), _word(launch.runner.get("host"))}
            hosts |= {_word(fact.get("host")) for fact in facts}
            machines |= {_word(fact.get("machine")) for fact in (launch.host, *facts)}
            places = [end.place for end in record.outcome.exits] if record.outcome else []
            hosts |= {_word(place.get("machine")) for place in places}
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
            return _NAMED.sub(lambda named: named[1] + self._words.get(named[2], named[2]) + b'"', line)
        return self._places.get(found[0]) or self._words[found[0]]


def is_printed(name: str) -> bool:
    """Return whether a file of a run's folder is what its processes left, and not what the runner says of them."""
    return _PRINTED.fullmatch(name) is not None


def is_artifact(name: str) -> bool:
    """Return whether a file of a run's folder is what its program left for itself, in any attempt."""
    return _ARTIFACT.fullmatch(name) is not None


def _forms(path: Path) -> list[bytes]:
    """Write a path as it stands in text, and as the JSON of this runner and of Python has it."""
    text = str(path)
    forms = [text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]]
    return [form.encode("utf-8", "surrogateescape") for form in dict.fromkeys(forms)]


def _pattern(places: Iterable[bytes], words: Iterable[bytes], first: bytes = b"") -> re.Pattern[bytes] | None:
    """Match whole folders and whole words, the longest first, and what goes before both."""
    parts = [first] if first else []
    parts += [re.escape(place) + rb"(?![\w.-])" for place in sorted(places, key=len, reverse=True)]
    parts += [_whole(word) for word in sorted(words, key=len, reverse=True)]
    return re.compile(b"|".join(parts)) if parts else None


def _whole(word: bytes) -> bytes:
    return rb"(?<![\w.-])" + re.escape(word) + rb"(?![\w-])"


def _hidden(words: Iterable[bytes], records: Iterable[Record]) -> list[bytes]:
    """Return the words that no run has in its own definition: elsewhere nobody can tell what such a word means."""
    said = []
    for launch in (record.launch for record in records):
        named = [launch.experiment, launch.program, launch.target, launch.device, launch.axes, launch.args]
        said.append(msgspec.json.encode([*named, launch.definition]))
    own = b"\n".join(dict.fromkeys(said))
    return [word for word in words if not re.search(_whole(word), own)]


def _through(change: Callable[[bytes], bytes], text: str) -> str:
    return change(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def _word(value: object) -> str:
    """Return a name that can be masked: no empty one, and none that stands everywhere."""
    return value if isinstance(value, str) and 1 < len(value) <= _LONGEST else ""


def mask_json(data: bytes, mask: Mask) -> bytes:
    """Mask a record, a launch, or what was seen of its end; what is no JSON is masked as a text."""
    try:
        before = msgspec.json.decode(data)
        after = _mask(before, "", mask)
        return data if after == before else msgspec.json.format(msgspec.json.encode(after), indent=1)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return mask.apply(data)


def _mask(value: Any, key: str, mask: Mask) -> Any:
    if isinstance(value, dict) and {"experiment", "definition", "args"} <= value.keys():
        return _mask_launch(value, mask)
    if isinstance(value, dict):
        inner = key if key in _TEXTS else ""
        return {mask.folders(name): _mask(item, inner or name, mask) for name, item in value.items()}
    if isinstance(value, list):
        return [_mask(item, key, mask) for item in value]
    if not isinstance(value, str):
        return value
    return mask.name(value) if key in _NAMING else mask.text(value) if key in _TEXTS else mask.folders(value)


def _mask_launch(launch: dict[str, Any], mask: Mask) -> dict[str, Any]:
    """Mask what was known before the start, and name the args and keys of the definition in which a folder was."""
    masked: dict[str, Any] = _map(launch, mask.folders)
    for part, names in (("host", ("name",)), ("runner", ("host",))):
        if isinstance(launch.get(part), dict):
            masked[part] |= {name: _map(launch[part][name], mask.name) for name in names if name in launch[part]}
    if isinstance(launch.get("options"), dict):
        named = {name: value for name, value in launch["options"].items() if name in _HOST_OPTIONS}
        masked["options"] |= _map(named, mask.text)
    masked["argv"] = _map(launch.get("argv"), mask.text)
    places = [name for part in _STARTED_WITH for name in _differing(launch[part], masked[part], part)]
    if places:
        masked["masked_places"] = [*dict.fromkeys([*(launch.get("masked_places") or []), *places])]
        if hash_resolved(launch["definition"]) == launch.get("definition_sha256"):
            masked["definition_sha256"] = hash_resolved(masked["definition"])
    return masked


def _map(value: Any, change: Any) -> Any:
    """Change every text of a JSON value, and no key."""
    if isinstance(value, dict):
        return {name: _map(item, change) for name, item in value.items()}
    if isinstance(value, list):
        return [_map(item, change) for item in value]
    return change(value) if isinstance(value, str) else value


def _differing(before: Any, after: Any, path: str) -> list[str]:
    """Name the values that are no longer the same, for example `args.data_dir`."""
    if isinstance(before, dict):
        return [name for key, item in before.items() for name in _differing(item, after[key], f"{path}.{key}")]
    return [path] if before != after else []
