"""Packages -> what is publicly known against them, as pip-audit finds it; or why that could not be looked up."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.core.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.supply.packages import Package

TOOL = "pip-audit"
SECONDS = 300
_LARGEST_ANSWER = 50_000_000


@dataclass
class Advisories:
    """What was found: `known` names each advisory, `checked` is how many packages were looked up.

    `unchecked` says why others were not, by how many packages.
    """

    checked: int = 0
    known: list[str] = field(default_factory=list)
    unchecked: dict[str, int] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Say it in lines for a person."""
        found = (
            [f"advisories: {len(self.known)} for {self.checked} packages that were looked up"] if self.checked else []
        )
        found += [f"  {one}" for one in self.known]
        return found + [f"advisories: not checked for {count} packages: {why}" for why, count in self.unchecked.items()]


def look_up(packages: Iterable[Package]) -> Advisories:
    """Ask pip-audit about the Python packages, over the network; it installs nothing and runs nothing of them."""
    wanted = sorted({(one.name, one.version) for one in packages if one.kind == "pypi"})
    tool = _tool()
    if tool is None:
        return _none(wanted, f"{TOOL} is not installed: pip install {TOOL}")
    with tempfile.TemporaryDirectory(prefix="runner-audit-") as folder:
        found = Advisories()
        for number, part in enumerate(_without_doubles(wanted)):
            path = Path(folder, f"{number}.txt")
            path.write_text("".join(f"{name}=={version}\n" for name, version in part), "utf-8")
            _add(found, tool, path, part)
    return found


def _add(found: Advisories, tool: str, path: Path, wanted: list[tuple[str, str]]) -> None:
    words = ["--disable-pip", "--no-deps", "--format", "json", "--progress-spinner", "off"]
    try:
        done = subprocess.run(
            [tool, "-r", str(path), *words], capture_output=True, stdin=subprocess.DEVNULL, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = f"{TOOL} had no answer within {SECONDS} s" if isinstance(error, subprocess.TimeoutExpired) else str(error)
        _merge(found, _none(wanted, one_line(why, 200)))
        return
    try:
        told: Any = json.loads(done.stdout[:_LARGEST_ANSWER])
        rows = told["dependencies"]
        assert isinstance(rows, list)  # noqa: S101 - as any other answer that is none
    except (ValueError, RecursionError, KeyError, TypeError, AssertionError):
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"]
        _merge(found, _none(wanted, f"{TOOL}: {one_line(lines[-1], 200)}"))
        return
    for row in rows:
        _read(found, row)


def _read(found: Advisories, row: Any) -> None:
    name, version = one_line(row.get("name"), 100), one_line(row.get("version", ""), 60)
    if "skip_reason" in row:
        # The reason names the package; it is the same for all of its kind.
        why = one_line(str(row["skip_reason"]), 200).partition(f": {name}")[0]
        found.unchecked[why] = found.unchecked.get(why, 0) + 1
        return
    found.checked += 1
    for one in row.get("vulns") or []:
        fixed = ", ".join(one_line(word, 40) for word in one.get("fix_versions") or []) or "no version yet"
        found.known.append(f"{name} {version}: {one_line(one.get('id'), 60)}, fixed in {fixed}")


def _none(wanted: list[tuple[str, str]], why: str) -> Advisories:
    return Advisories(unchecked={why: len(wanted)} if wanted else {})


def _merge(found: Advisories, other: Advisories) -> None:
    for why, count in other.unchecked.items():
        found.unchecked[why] = found.unchecked.get(why, 0) + count


def _without_doubles(wanted: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Split them so that each list names a package once: a lock file may pin a version for each Python."""
    parts: list[dict[str, str]] = []
    for name, version in wanted:
        part = next((one for one in parts if name not in one), None)
        if part is None:
            part = {}
            parts.append(part)
        part[name] = version.partition("+")[0]
    return [list(part.items()) for part in parts]


def _tool() -> str | None:
    beside = Path(sys.executable).with_name(TOOL)
    return str(beside) if beside.is_file() else shutil.which(TOOL)
