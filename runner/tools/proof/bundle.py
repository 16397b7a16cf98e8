"""Pack results into one archive for a reviewer: records, code, tables, and a README that lists omissions.

The archive is a PAX tar (POSIX.1-2001) of regular files. They are sorted by name and have fixed times, owners and
modes, so that the same files always give the same bytes. `runner.records.unpacking` opens the archive.
"""

import os
import re
import tarfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from runner.core.errors import RequestError, RunError
from runner.core.output import require_outputs
from runner.core.secrets import mask as without_secrets
from runner.core.temporary import temporary_folder
from runner.core.text import listed, one_line
from runner.records import manifest
from runner.records.folder import RunFolder
from runner.records.schema import Record
from runner.records.unpacking import RESULTS, TOP
from runner.tools.proof.checkouts import PROJECT, Sources, kept_changes, tree_name
from runner.tools.proof.integrity import check_whole_and_parsed, runs_at
from trainkit import files

README = "README.md"
LARGEST_SOURCE = 50_000_000
"""The most bytes of a project file. A larger file is taken for data and left out."""
LARGEST_MASKED = 200_000_000
"""The most bytes of a run's file, since files are masked in memory. A larger file is left out."""
_ARTIFACT = re.compile(r"(attempts/\d+/)?artifacts/")
_TIME = 315_532_800  # 1980, the earliest time in zip files
_BLOCK = 1 << 20


class Bundle:
    """The folder that becomes the archive.

    `results` is the folder of one run, or a folder of runs. `sources` is the repository around the current folder.
    """

    def __init__(self, results: Path, sources: Sources, folder: Path, *, code: bool) -> None:
        self.results, self.sources, self.folder, self.code = results, sources, folder, code
        self.left_out: list[str] = []
        self.records: dict[str, Record] = {}

    def fill(self) -> None:
        """Copy runs and code, and write tables, README and manifest. Raises RunError for an altered record."""
        self._take_runs()
        if self.code:
            self._take_code()
        else:
            self.left_out.append("the code: runner reproduce takes it from the clone in which it is called")
        self._make_tables()
        readme = _readme(self.records, self.left_out)
        _put(self.folder / README, readme.encode("utf-8", "backslashreplace"))
        whole = manifest.make(self.folder, ["written by runner bundle"])
        _put(self.folder / manifest.NAME, manifest.write(whole))

    def _take_runs(self) -> None:
        for path in runs_at(self.results, self.left_out):
            record, faults = check_whole_and_parsed(path)
            if record is not None and record.status == "running":
                self.left_out.append(f"{path}: it has not ended, or was not collected")
                continue
            if record is None or faults:
                msg = f"{path}: {faults[0]}: altered records are not bundled; see runner verify"
                raise RunError(msg)
            name = f"{RESULTS}/{record.launch.experiment}/{record.launch.id}"
            if name in self.records or Path(name).parts != (RESULTS, record.launch.experiment, record.launch.id):
                self.left_out.append(f"{path}: its name is invalid, or that of another run")
                continue
            masked, gone = self._copy(path, name, LARGEST_MASKED, without=_ARTIFACT)
            target, text = self.folder / name, (path / manifest.NAME).read_bytes()
            if masked or gone:
                notes = manifest.read(text).said
                notes += [f"masked by runner bundle: {', '.join(masked)}"] if masked else []
                notes += [f"left out by runner bundle: {words}" for words in gone]
                text = manifest.write(manifest.make(target, notes))
            _put(target / manifest.NAME, text)
            self.records[name] = RunFolder(target).read()
        if not self.records:
            raise RequestError(f"{self.results}: no run in it has ended")

    def _take_code(self) -> None:
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
                    masked, _ = self._copy(folder, tree, LARGEST_SOURCE)
            except RunError as error:
                self.left_out.append(f"{of_runs}: {str(error).replace(f'{self.folder}/', '')}")
            else:
                notes += [
                    f"{file}: a secret in it is masked: revoke it, since it is in the repository" for file in masked
                ]
                self.left_out += [f"{tree}/{why}" for why in notes]

    def _copy(
        self, source: Path, name: str, most: int, without: re.Pattern[str] | None = None
    ) -> tuple[list[str], list[str]]:
        regular, other = manifest.listing(source)
        masked, gone = [], [f"{file}: it is {why}" for file, why in other.items()]
        for file in regular:
            mode, size = (source / file).stat().st_mode, (source / file).stat().st_size
            if without and without.match(file):
                gone.append(f"{file}: an artifact may hold anything")
            elif size > most:
                gone.append(f"{file}: it has more than {most:,} bytes")
            else:
                data = files.read_file(source / file, most, below=source)
                shown = without_secrets(data)
                masked += [file] if shown != data else []
                _put(self.folder / name / file, shown)
                (self.folder / name / file).chmod(mode | 0o600)
        self.left_out += [f"{name}/{words}" for words in gone]
        return masked, gone

    def _make_tables(self) -> None:
        from runner.report.formats import document  # a slow import
        from runner.report.summarize import summarize

        results, here = self.folder / RESULTS, f"{self.folder}/"
        blocks, _ = summarize(results)
        for form, file in (("markdown", "table.md"), ("json", "table.json"), ("csv", "table.csv")):
            text = document(form, blocks)
            _put(self.folder / file, text.replace(here, "").encode("utf-8", "backslashreplace"))


def pack(folder: Path, stream: Any) -> None:
    """Write a folder's files to a stream as one archive. Raises OSError if a file cannot be read."""
    regular, _ = manifest.listing(folder)
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT, bufsize=_BLOCK) as tar:
        for name in sorted([*regular, *([manifest.NAME] if files.is_file(folder / manifest.NAME) else [])]):
            with files.open_file(folder / name, below=folder) as file:
                member = tarfile.TarInfo(f"{TOP}/{name}")
                member.size, member.mtime = os.fstat(file.fileno()).st_size, _TIME
                member.mode = 0o755 if os.fstat(file.fileno()).st_mode & 0o100 else 0o644
                tar.addfile(member, file)


def write_bundle(results: Path, root: Path, output: Path, say: Callable[[str], None], *, code: bool = True) -> None:
    """Write the archive of some results atomically. Raises RequestError or RunError if it cannot be made.

    `say` gets a line for each omission.
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
            beside.replace(output)
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        raise RequestError(f"{output}: cannot be written: {error.strerror or error}{place}") from None
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
    for words in bundle.left_out:
        say(f"left out: {words}")


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _readme(records: dict[str, Record], left_out: list[str]) -> str:
    lines = [
        "# Runs of distributed training, to be checked and repeated",
        "",
        f"{len(records)} runs. `table.md` shows them, `{RESULTS}/` holds the records with their whole output,",
        f"and `{PROJECT}/`, if present, the code at each commit, with the uncommitted changes of its runs.",
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
    return "\n".join(lines) + "\n"
