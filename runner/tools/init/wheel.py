"""The kit itself as a wheel, made from what is installed here: images get the same kit, and no index is needed.

Source: the binary distribution format (packaging.python.org, "Binary distribution format", version 1.0).
"""

import base64
import hashlib
import io
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import runner
from runner.core.errors import RequestError
from runner.tools.init.settings_text import read_toml
from trainkit.files import is_file, read_file

NAME = "distributed-experiment-kit"
PACKAGES = ("runner", "trainkit")
_STEM = f"{NAME.replace('-', '_')}-{runner.__version__}"
_INFO = f"{_STEM}.dist-info"
LARGEST_BYTES = 5_000_000
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644 << 16


def wheel_name() -> str:
    """Return the name of the wheel's file."""
    return f"{_STEM}-py3-none-any.whl"


def make_wheel() -> bytes:
    """Return the wheel; the same files always give the same bytes."""
    home = Path(runner.__file__).parents[1]
    project = read_toml(home / "pyproject.toml").get("project", {})
    # The kit runs from its own repository, installed or not; or from an installation.
    files = _of_checkout(home, project) if project.get("name") == NAME else _of_installation()
    files[f"{_INFO}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: runner init\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = []
    for path, data in sorted(files.items()):
        sha256 = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={sha256},{len(data)}\n")
    files[f"{_INFO}/RECORD"] = "".join([*rows, f"{_INFO}/RECORD,,\n"]).encode()
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in sorted(files.items(), key=lambda entry: (".dist-info/" in entry[0], entry[0])):
            entry = zipfile.ZipInfo(path, _LONG_AGO)
            entry.compress_type, entry.external_attr, entry.create_system = zipfile.ZIP_DEFLATED, _MODE, 3
            archive.writestr(entry, data)
    return written.getvalue()


def _of_checkout(home: Path, project: dict[str, Any]) -> dict[str, bytes]:
    paths = [path for package in PACKAGES for path in (home / package).rglob("*") if _is_part(path.relative_to(home))]
    files = {path.relative_to(home).as_posix(): read_file(path, LARGEST_BYTES) for path in paths if is_file(path)}
    scripts = "".join(f"{name} = {place}\n" for name, place in project.get("scripts", {}).items())
    files[f"{_INFO}/entry_points.txt"] = f"[console_scripts]\n{scripts}".encode()
    files[f"{_INFO}/METADATA"] = _metadata(project).encode()
    if is_file(home / "LICENSE"):
        files[f"{_INFO}/licenses/LICENSE"] = read_file(home / "LICENSE", LARGEST_BYTES)
    return files


def _metadata(project: dict[str, Any]) -> str:
    rows = ["Metadata-Version: 2.1", f"Name: {NAME}", f"Version: {runner.__version__}"]
    rows += [f"Summary: {project.get('description', '')}", f"Requires-Python: {project.get('requires-python', '')}"]
    rows += [f"Requires-Dist: {line}" for line in project.get("dependencies", [])]
    for extra, names in project.get("optional-dependencies", {}).items():
        rows += [f"Provides-Extra: {extra}", *(f"Requires-Dist: {line}; extra == '{extra}'" for line in names)]
    return "".join(f"{row}\n" for row in rows)


def _of_installation() -> dict[str, bytes]:
    try:
        installed = metadata.distribution(NAME)
    except metadata.PackageNotFoundError:
        installed = None
    kept = (f"{_INFO}/METADATA", f"{_INFO}/entry_points.txt")
    names = [path for path in (installed.files or [] if installed else []) if _is_part(path)]
    wanted = [path for path in names if path.parts[0] in PACKAGES or str(path) in kept or "licenses" in path.parts]
    files = {path.as_posix(): read_file(Path(str(path.locate())), LARGEST_BYTES) for path in wanted}
    if installed is None or not {"runner/__init__.py", kept[0]} <= files.keys():
        msg = f"{NAME} is not installed as a package here, so no image can get it: pip install it, or run its checkout"
        raise RequestError(msg)
    return files


def _is_part(path: Any) -> bool:
    return "__pycache__" not in path.parts and path.suffix != ".pyc" and not path.name.startswith(".")
