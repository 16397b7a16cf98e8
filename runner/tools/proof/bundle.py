"""Results -> one archive for a reviewer: records, code, tables, what describes them, and a list of what is left out."""

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from runner.core.errors import RequestError, RunError
from runner.core.output import require_outputs
from runner.core.secrets import mask as without_secrets
from runner.core.temporary import temporary_folder
from runner.core.text import listed, one_line
from runner.records import manifest
from runner.records.folder import RunFolder
from runner.records.schema import Record
from runner.records.unpacking import RESULTS
from runner.tools.proof.archive import pack
from runner.tools.proof.integrity import check_whole, read_again, runs_at
from runner.tools.proof.sources import PROJECT, Sources, kept_changes, tree_name
from trainkit import files

README = "README.md"
LARGEST_SOURCE = 50_000_000
"""Bytes of a file of the project; a larger one is data, and is left out."""
LARGEST_MASKED = 200_000_000
"""Bytes of a file that is masked in memory; a larger one is left out."""
_ARTIFACT = re.compile(r"(attempts/\d+/)?artifacts/")


class Bundle:
    """The folder that becomes the archive, as it is filled: empty at first.

    The results are those of many runs or of one, the sources those of the folder in which the command was given.
    """

    def __init__(self, results: Path, sources: Sources, folder: Path, *, code: bool) -> None:
        self.results, self.sources, self.folder, self.code = results, sources, folder, code
        self.left_out: list[str] = []
        self.records: dict[str, Record] = {}
        self.trees: list[str] = []

    def fill(self) -> None:
        """Copy the runs and the code, make the tables, and describe it all; RunError for a record that was altered."""
        self._take_runs()
        if self.code:
            self._take_code()
        else:
            self.left_out.append("the code: reproduce takes it from the clone in which it is called")
        self._make_tables()
        readme = _readme(self.records, self.trees, self.left_out)
        _put(self.folder / README, readme.encode("utf-8", "backslashreplace"))
        whole = manifest.make(self.folder, ["written by runner bundle"])
        _put(self.folder / manifest.NAME, manifest.write(whole))

    def _take_runs(self) -> None:
        """Copy every run that has ended."""
        found: list[tuple[Path, Record]] = []
        for path in runs_at(self.results, self.left_out):
            record, faults = check_whole(path)
            if record is not None and record.status == "running":
                self.left_out.append(f"{one_line(path)}: it has not ended, or is not collected")
                continue
            if record and not faults and (parsed := read_again(path, record)).same is False:
                faults = [str(parsed)]
            if record is None or faults:
                msg = f"{one_line(path)}: {faults[0]}: an altered record is not bundled; runner verify says more"
                raise RunError(msg)
            found.append((path, record))
        if not found:
            raise RequestError(f"{one_line(self.results)}: no run in it has ended")
        for path, record in found:
            name = f"{RESULTS}/{record.launch.experiment}/{record.launch.id}"
            if name in self.records or Path(name).parts != (RESULTS, record.launch.experiment, record.launch.id):
                self.left_out.append(f"{one_line(path)}: its name is that of another run, or none")
            else:
                self._copy_run(path, name)
                self.records[name] = RunFolder(self.folder / name).read()

    def _copy_run(self, path: Path, name: str) -> None:
        """Copy a run with its secrets masked; its manifest follows, and says so."""
        target = self.folder / name
        regular, other = manifest.listing(path)
        changed, gone = [], [f"{file}: it is {why}" for file, why in other.items()]
        for file in regular:
            if _ARTIFACT.match(file):
                gone.append(f"{file}: an artifact may hold anything")
            elif (path / file).stat().st_size > LARGEST_MASKED:
                gone.append(f"{file}: it has more than {LARGEST_MASKED:,} bytes")
            else:
                data = files.read_file(path / file, LARGEST_MASKED, below=path)
                shown = without_secrets(data)
                changed += [file] if shown != data else []
                _put(target / file, shown)
        self.left_out += [one_line(f"{name}/{words}") for words in gone]
        text = (path / manifest.NAME).read_bytes()
        if changed or gone:
            said = manifest.read(text).said
            said += [f"masked by runner bundle: {', '.join(changed)}"] if changed else []
            said += [f"left out by runner bundle: {words}" for words in gone]
            text = manifest.write(manifest.make(target, said))
        _put(target / manifest.NAME, text)

    def _take_code(self) -> None:
        """Take the project's files as each run had them: those of its commit, with the changes that it kept."""
        trees: dict[str | None, list[str]] = defaultdict(list)
        for name, record in self.records.items():
            trees[tree_name(record.launch.code)].append(name)
        for tree, names in sorted(trees.items(), key=str):
            of_runs = f"the code of {listed(sorted(names), most=3)}"
            if tree is None:
                self.left_out.append(f"{of_runs}: the record names no commit")
                continue
            code = self.records[names[0]].launch.code
            try:
                diff = kept_changes(self.folder / names[0], code)
                with temporary_folder("bundle") as scratch:
                    folder, notes = self.sources.check_out(code, scratch, diff)
                    self._copy_tree(folder, tree)
            except RunError as error:
                self.left_out.append(f"{of_runs}: {str(error).replace(f'{self.folder}/', '')}")
            else:
                self.trees.append(tree)
                self.left_out += [f"{tree}/{why}" for why in notes]

    def _copy_tree(self, tree: Path, name: str) -> None:
        regular, other = manifest.listing(tree)
        self.left_out += [one_line(f"{name}/{file}: it is {why}") for file, why in other.items()]
        for file in regular:
            source, target = tree / file, self.folder / name / file
            if source.stat().st_size > LARGEST_SOURCE:
                self.left_out.append(one_line(f"{name}/{file}: it has more than {LARGEST_SOURCE:,} bytes"))
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
            data = source.read_bytes()
            if (shown := without_secrets(data)) != data:
                target.write_bytes(shown)
                why = "a secret in it is masked: change it, it is in the repository"
                self.left_out.append(one_line(f"{name}/{file}: {why}"))

    def _make_tables(self) -> None:
        """Make the tables from the records as they are in the archive."""
        from runner.report.formats import document  # it takes its time
        from runner.report.summarize import summarize

        results, here = self.folder / RESULTS, f"{self.folder}/"
        blocks, _ = summarize(results)
        for form, file in (("markdown", "table.md"), ("json", "table.json"), ("csv", "table.csv")):
            text = document(form, blocks)
            _put(self.folder / file, text.replace(here, "").encode("utf-8", "backslashreplace"))


def write_bundle(results: Path, root: Path, output: Path, say: Callable[[str], None], *, code: bool = True) -> None:
    """Write the archive of some results whole or not at all; RequestError, RunError if it cannot be made.

    `say` is told what is left out and why.
    """
    require_outputs([output])
    beside = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    try:
        with temporary_folder("bundle") as scratch:
            bundle = Bundle(results, Sources(root), scratch / "kit", code=code)
            bundle.folder.mkdir()
            bundle.fill()
            with files.create_file(beside) as stream:
                pack(bundle.folder, stream)
                stream.flush()
                os.fsync(stream.fileno())
            require_outputs([output])
            beside.replace(output)
    except OSError as error:
        place = f" ({one_line(error.filename)})" if error.filename else ""
        msg = f"{one_line(output)}: cannot be written: {error.strerror or one_line(error)}{place}"
        raise RequestError(msg) from None
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
    for words in bundle.left_out:
        say(f"left out: {words}")


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _readme(records: dict[str, Record], trees: list[str], left_out: list[str]) -> str:
    lines = [
        "# Runs of distributed training, to be checked and repeated",
        "",
        f"{len(records)} runs. `table.md` shows them, `{RESULTS}/` holds the records with all that their processes",
        f"printed, and `{PROJECT}/` the code at each commit, with the changes that a run kept.",
        "",
        "    runner verify kit.tar       # is every byte as it was written?",
        "    runner summarize kit.tar    # the table again, from the records",
        "    runner report kit.tar       # a page with plots",
        "    runner reproduce kit.tar    # runs the code in here: one run of each cell again, compared bit for bit",
        "",
        "Masked: secrets. Not masked: hosts, users, folders, addresses, and whatever else programs printed.",
        "",
        "Left out:",
        "",
        "- data sets and models: their hashes are in the records",
        "- images: their digests are in the records",
        "- artifacts of runs and files above the limits, each named below",
        *(f"- {one_line(words, 500)}" for words in left_out),
    ]
    return "\n".join(lines) + "\n" + ("" if trees else "\nNo code is in this archive.\n")
