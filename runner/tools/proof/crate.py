"""Records -> `ro-crate-metadata.json`: what an archive holds, in the words of the field.

RO-Crate 1.1 (https://w3id.org/ro/crate/1.1) with the profile Process Run Crate 0.5
(https://w3id.org/ro/wfrun/process/0.5): each run is a CreateAction, whose instrument is the program, whose objects are
its request and its code, and whose results are its record and its output.
"""

from typing import Any
from urllib.parse import quote

import msgspec

from runner import __version__
from runner.core.text import one_line
from runner.records.manifest import Manifest
from runner.records.schema import Record

NAME = "ro-crate-metadata.json"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
_CONTEXT = "https://w3id.org/ro/crate/1.1/context"
_TERMS = {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}
_TYPES = {
    ".json": "application/json",
    ".md": "text/markdown",
    ".html": "text/html",
    ".yaml": "application/yaml",
    ".py": "text/x-python",
    ".diff": "text/x-diff",
}
_Entity = dict[str, Any]
_NO_LICENCE = "No file LICENSE is in here: ask the authors of the project."
_METADATA = {
    "@id": NAME,
    "@type": "CreativeWork",
    "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
    "about": {"@id": "./"},
}
_PROFILE = {"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
_KIT = {
    "@id": "#kit",
    "@type": "SoftwareApplication",
    "name": "distributed-experiment-kit",
    "description": "starts training on one or several nodes, and keeps a record of it",
    "softwareVersion": __version__,
    "license": {"@id": "https://spdx.org/licenses/Apache-2.0"},
    "url": "urn:software:distributed-experiment-kit",
}


def describe(runs: dict[str, Record], files: Manifest, trees: dict[str, str], licence: str | None) -> bytes:
    """Describe an archive; the same contents give the same bytes.

    Args:
        runs: the records, by the folders of their runs in the archive.
        files: every file of the archive, by its path in it.
        trees: the folder of the code of each commit.
        licence: the file with the project's licence, if there is one.
    """
    graph: list[_Entity] = [_METADATA, _root(runs, files, trees, licence), _PROFILE, _KIT]
    programs = {_program_id(record): _program(record) for record in runs.values()}
    graph += [programs[name] for name in sorted(programs)]
    graph += [_action(folder, runs[folder], files, trees) for folder in sorted(runs)]
    for commit, folder in sorted(trees.items()):
        name = f"the project at commit {one_line(commit, 12)}"
        about = f"{name}, as git has it"
        graph.append({"@id": f"{_path(folder)}/", "@type": "Dataset", "name": name, "description": about})
    graph += [_file(name, entry.size, entry.sha256) for name, entry in sorted(files.entries.items())]
    if licence is None:
        graph.append({"@id": "#licence", "@type": "CreativeWork", "name": "not stated", "description": _NO_LICENCE})
    crate = {"@context": [_CONTEXT, _TERMS], "@graph": graph}
    return msgspec.json.format(msgspec.json.encode(crate), indent=1) + b"\n"


def _path(name: str) -> str:
    """Write a path in the archive as an identifier; its bytes need not be UTF-8."""
    return quote(name, errors="surrogateescape")


def _root(runs: dict[str, Record], files: Manifest, trees: dict[str, str], licence: str | None) -> _Entity:
    experiments = sorted({one_line(record.launch.experiment, 100) for record in runs.values()})
    ends = [record.outcome.ended if record.outcome else record.launch.started for record in runs.values()]
    return {
        "@id": "./",
        "@type": "Dataset",
        "conformsTo": {"@id": PROFILE},
        "name": f"Runs of {', '.join(experiments[:10])}",
        "description": f"{len(runs)} runs of distributed training, with programs, requests, raw output and tables.",
        "datePublished": one_line(max(ends), 40),
        "license": {"@id": _path(licence) if licence else "#licence"},
        "hasPart": [
            *({"@id": f"{_path(folder)}/"} for folder in sorted(trees.values())),
            *({"@id": _path(name)} for name in sorted(files.entries)),
        ],
        "mentions": [{"@id": f"#{_path(folder)}"} for folder in sorted(runs)],
    }


def _program_id(record: Record) -> str:
    sources = one_line(record.launch.code.get("sources_sha256"), 12)
    return f"#program-{quote(record.launch.program)}-{quote(sources)}"


def _program(record: Record) -> _Entity:
    facts = next((rank.facts for rank in record.ranks if rank.facts), {})
    return {
        "@id": _program_id(record),
        "@type": "SoftwareApplication",
        "name": one_line(record.launch.program, 200),
        "softwareVersion": one_line(record.launch.code.get("sources_sha256"), 64),
        "softwareRequirements": {"@id": "#kit"},
        "description": f"a training program, with torch {one_line(facts.get('torch') or 'of an unknown version', 40)}",
        "url": f"urn:sha256:{quote(one_line(record.launch.code.get('sources_sha256'), 64))}",
    }


def _action(folder: str, record: Record, files: Manifest, trees: dict[str, str]) -> _Entity:
    launch = record.launch
    own = [name for name in sorted(files.entries) if name.startswith(f"{folder}/")]
    request = [name for name in own if name.startswith(f"{folder}/request/")]
    code = trees.get(str(launch.code.get("commit")))
    where = f"{launch.experiment} {launch.layout} on {launch.target}"
    done = record.status == "completed"
    action: _Entity = {
        "@id": f"#{_path(folder)}",
        "@type": "CreateAction",
        "name": one_line(where, 200),
        "description": one_line(f"{where}, repeat {launch.repeat} of {launch.repeats}: {record.status}", 300),
        "instrument": {"@id": _program_id(record)},
        "startTime": one_line(launch.started, 40),
        "actionStatus": {"@id": f"http://schema.org/{'Completed' if done else 'Failed'}ActionStatus"},
        "object": [{"@id": _path(name)} for name in request] + ([{"@id": f"{_path(code)}/"}] if code else []),
        "result": [{"@id": _path(name)} for name in own if name not in request],
    }
    if record.outcome:
        action["endTime"] = one_line(record.outcome.ended, 40)
    if not done:
        action["error"] = one_line(record.reason or record.status, 300)
    return action


def _file(name: str, size: int, sha256: str) -> _Entity:
    suffix = name[name.rfind(".") :] if "." in name else ""
    return {
        "@id": _path(name),
        "@type": "File",
        "name": one_line(name.rpartition("/")[2], 200),
        "contentSize": str(size),
        "sha256": sha256,
        "encodingFormat": _TYPES.get(suffix, "text/plain"),
    }
