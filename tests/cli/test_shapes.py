"""The names and kinds of values in `run.json` and in each command's JSON, which other programs read.

`--update-golden` rewrites the files; a name that disappears breaks somebody's notebook.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.support.projects import Project

GOLDEN = Path(__file__).parent / "golden"
OPEN = {"args", "axes", "definition", "devices", "facts", "files", "host", "machines", "packages", "settings"}
"""Mappings whose keys depend on the machine or on the experiment."""
MNIST = "Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.3\nTest set: Average loss: 0.05, Accuracy: 9830/10000 (98%)\n"
KINDS = {bool: "boolean", int: "number", float: "number", str: "string", type(None): "null"}


def shape(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and place.rpartition(".")[2] not in OPEN:
        for key, one in value.items():
            yield from shape(one, f"{place}.{key}")
    elif isinstance(value, list) and value:
        for one in value:
            yield from shape(one, f"{place}[]")
    else:
        yield place, KINDS.get(type(value), "object" if isinstance(value, dict) else "list")


def text_of(*values: Any) -> str:
    kinds: dict[str, set[str]] = {}
    for value in values:
        for place, kind in shape(value):
            kinds.setdefault(place, set()).add(kind)
    return "".join(f"{place}: {' or '.join(sorted(kinds[place]))}\n" for place in sorted(kinds))


Hold = Callable[[Path, str], None]


def test_the_json_of_a_command_has_the_names_that_it_had(finished: Project, golden: Hold, tmp_path: Path) -> None:
    again = shutil.copytree(finished.results, tmp_path / "again")
    for path in again.rglob("run.json"):  # a run on both sides counts for neither
        record = json.loads(path.read_text("utf-8"))
        record["launch"]["id"] += "-again"
        path.write_text(json.dumps(record), "utf-8")
    log = tmp_path / "mnist.log"
    log.write_text(MNIST, "utf-8")
    results: list[tuple[str | Path, ...]] = [
        ("summarize", "results", "--format", "json"),
        ("compare", "results", again, "--json"),
        ("verify", "results", "--json"),
        ("collect", log, "--json", "--metric", r"rate=Loss: ([\d.]+)"),
    ]
    for words in results:
        golden(GOLDEN / f"{words[0]}.shape", text_of(json.loads(finished.runner(*words).stdout)))
    golden(GOLDEN / "run-own.shape", text_of(*map(finished.record, finished.runs())))


def test_records_of_any_script_and_of_a_failure_have_the_names_that_they_had(project: Project, golden: Hold) -> None:
    project.root.joinpath("train.py").write_text('print("loss: 0.5")\n', "utf-8")
    project.runner("run", "train.py", "--layout", "1x1", "--repeat", "1", "--metric", r"loss=loss: ([\d.]+)")
    golden(GOLDEN / "run-script.shape", text_of(*map(project.record, project.runs("train"))))
    project.program("toys.fails", "raise OSError('no data')")
    project.define(program="toys.fails")
    project.runner("run", "tiny", "--layout", "1x1")
    golden(GOLDEN / "run-failed.shape", text_of(*map(project.record, project.runs())))
