"""A package as an inventory names it, and those of the project's lock file.

Names are compared as the packaging specification has it (PyPA, name normalization), and a package is identified by its
package URL (purl specification, types `pypi` and `deb`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from importlib import metadata
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from runner.core.errors import RequestError
from runner.core.text import one_line
from trainkit.files import read_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LOCK = "requirements.lock"
LARGEST_LOCK = 20_000_000
LONGEST_LICENCE = 80
"""Characters of a licence's name; a longer text is the licence itself."""
_PINNED = re.compile(r"([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?==([^\s;\\]+)\s*(?:;\s*([^\\]*?))?\s*\\?$")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_CLASSIFIER = "License :: "
_NO_NAMES = ("unknown", "", "none", "dual license", "other/proprietary license")


@dataclass(frozen=True)
class Package:
    """A package: `kind` is `pypi` or `deb`, `place` says where it was found.

    `hashes` are the SHA-256 of the files that the lock file allows; `expression` is whether there is one licence, an
    SPDX expression; `marker` says for which Python and machine a lock file means it; `origin` is the distribution of a
    `deb`, for example `debian`.
    """

    kind: str
    name: str
    version: str
    place: str
    licences: tuple[str, ...] = ()
    expression: bool = False
    hashes: tuple[str, ...] = ()
    marker: str | None = None
    arch: str | None = None
    origin: str | None = None

    @property
    def purl(self) -> str:
        """Identify it by its package URL."""
        name, version = quote(self.name, safe=""), quote(self.version, safe="")
        if self.kind == "deb":
            arch = f"?arch={quote(self.arch, safe='')}" if self.arch else ""
            return f"pkg:deb/{quote(self.origin or 'debian', safe='')}/{name}@{version}{arch}"
        return f"pkg:pypi/{name}@{version}"


def normal(name: str) -> str:
    """Write a Python package's name in its one form."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_lock(path: Path) -> list[Package]:
    """Read what a lock file pins; RequestError if it cannot be read or pins nothing."""
    try:
        text = read_file(path, LARGEST_LOCK).decode("utf-8", "replace")
    except OSError as error:
        msg = f"{one_line(path)}: {error.strerror}"
        raise RequestError(msg) from None
    found: list[tuple[re.Match[str], list[str]]] = []
    for line in text.splitlines():
        if pinned := _PINNED.match(line):
            found.append((pinned, []))
        if found:
            found[-1][1].extend(_HASH.findall(line))
    if not found:
        msg = f"{one_line(path)}: it pins no package, as name==version"
        raise RequestError(msg)
    here = installed_here()
    packages = []
    for pinned, hashes in found:
        name, version = normal(pinned[1]), pinned[2]
        licences, expression = here.get((name, version), ((), False))
        packages.append(
            Package("pypi", name, version, path.name, licences, expression, tuple(sorted(hashes)), pinned[3] or None)
        )
    return packages


def installed_here() -> dict[tuple[str, str], tuple[tuple[str, ...], bool]]:
    """Return the licences of what this Python has, by name and version."""
    found = {}
    for one in metadata.distributions():
        facts = one.metadata
        fields = ("Name", "Version", "License-Expression", "License")
        # Not by []: where importlib_metadata has been imported, a field that is not there raises KeyError.
        name, version, expression, licence = (next(iter(facts.get_all(field) or ()), None) for field in fields)
        if name and version:
            classifiers = [word for word in facts.get_all("Classifier") or [] if word.startswith(_CLASSIFIER)]
            found[normal(name), version] = licence_of(expression, licence, classifiers)
    return found


def licence_of(expression: object, text: object, classifiers: Iterable[object]) -> tuple[tuple[str, ...], bool]:
    """Name the licences of a Python package, and say whether that is an SPDX expression (core metadata, PEP 639).

    In this order: the expression, the short name in `License`, the classifiers.
    """
    if isinstance(expression, str) and expression.strip():
        return (one_line(expression, 200),), True
    if isinstance(text, str) and "\n" not in text.strip() and len(text) <= LONGEST_LICENCE:
        name = one_line(text, LONGEST_LICENCE)
        if name.lower() not in _NO_NAMES:
            return (name,), False
    names = [str(word).rpartition(" :: ")[2] for word in classifiers]
    named = [
        one_line(name, LONGEST_LICENCE) for name in names if name not in ("OSI Approved", "Other/Proprietary License")
    ]
    return tuple(dict.fromkeys(named)), False


def with_hashes(found: list[Package], locked: list[Package]) -> list[Package]:
    """Give the packages of an image the hashes that the lock file has for the same version."""
    hashes = {(one.name, one.version): one.hashes for one in locked}
    return [
        replace(one, hashes=hashes.get((one.name, one.version.partition("+")[0]), ())) if one.kind == "pypi" else one
        for one in found
    ]


def of_image(told: dict[str, Any]) -> list[Package]:
    """Read the inventory that an image gave of itself; what is no package is left out."""
    packages = [one for row in told.get("python") or [] if (one := _python(row))]
    packages += _dpkg(str(told.get("dpkg") or ""), str(told.get("os") or ""), told.get("copyright") or {})
    return sorted(dict.fromkeys(packages), key=lambda one: (one.kind, one.name, one.version, one.place))


def _python(row: Any) -> Package | None:
    if not (isinstance(row, list) and len(row) == 6 and isinstance(row[0], str) and isinstance(row[1], str)):  # noqa: PLR2004
        return None
    name, version, expression, text, classifiers, place = row
    licences, told = licence_of(expression, text, classifiers if isinstance(classifiers, list) else [])
    return Package("pypi", one_line(normal(name), 200), one_line(version, 100), one_line(place, 200), licences, told)


def _dpkg(status: str, system: str, licences: Any) -> list[Package]:
    """Read dpkg's list of packages (deb822: paragraphs of `Field: value`), those that are installed."""
    origin = re.search(r'^ID="?([a-z0-9._-]+)', system, re.MULTILINE)
    packages = []
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if "Package" not in fields or "Version" not in fields or not fields.get("Status", "").endswith(" installed"):
            continue
        found = licences.get(fields["Package"]) if isinstance(licences, dict) else None
        named = [one_line(name, LONGEST_LICENCE) for name in found or [] if isinstance(name, str)]
        packages.append(
            Package(
                "deb",
                one_line(fields["Package"], 200),
                one_line(fields["Version"], 100),
                "dpkg",
                tuple(sorted(set(named))),
                arch=one_line(fields.get("Architecture", ""), 40) or None,
                origin=origin[1] if origin else None,
            )
        )
    return packages
