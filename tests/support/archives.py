"""Create folders and archives with given files, like those of data sets."""

import io
import tarfile
import zipfile
from pathlib import Path

Files = dict[str, bytes]


def tar(*members: tuple[str, bytes], mode: str = "w:gz") -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return content.getvalue()


def zipped(*members: tuple[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return content.getvalue()


def folder(place: Path, files: Files) -> Path:
    """Create a folder with the files."""
    for name, content in files.items():
        path = place / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return place / "source"


def tarball(place: Path, files: Files) -> Path:
    """Create a gzipped tar with the files in a folder."""
    path = place / "source.tgz"
    path.write_bytes(tar(*((f"package/data/{name}", content) for name, content in files.items())))
    return path


def zip_file(place: Path, files: Files) -> Path:
    """Create a zip with the files in a folder."""
    path = place / "source.zip"
    path.write_bytes(zipped(*((f"a/b/{name}", content) for name, content in files.items())))
    return path
