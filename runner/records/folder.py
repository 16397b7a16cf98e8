"""Record <-> `results/`: the only writer there.

A run's folder is `results/<experiment>/<UTC time>-<target>-<id>/`. `run.json` says `running` before anything is
started and is replaced whole (written beside, flushed to the disk, renamed), so that a kill at any moment leaves one
of the two. `raw/` is the truth: all else of a record is parsed from it, from `request/launch.json` and from
`raw/outcome.json`, and can be parsed again.

A folder may come from a stranger: nothing in it is read, moved or written through a link.
"""

import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import BinaryIO

import msgspec

from runner.core import clock
from runner.core.errors import RequestError, reason_of
from runner.core.layout import Layout
from runner.core.secrets import mask
from runner.records import manifest
from runner.records.decode import LARGEST_RECORD, decode, read_launch, read_record
from runner.records.raw_files import RawFiles
from runner.records.schema import FINISHED, Launch, NodeExit, Outcome, Record
from trainkit import files

_LARGEST_EXIT = 1_000_000
_UNFINISHED = re.compile(r"\.(run|outcome|launch|node\d+-exit)\.json\.\d+\.tmp|\..*\.masked\.tmp")
_BLOCK = 4_000_000
_AGAIN_SECONDS = 0.05
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""How a disk answers that knows no locks."""
# A name that stays in its folder, whoever it came from.
_NAME = re.compile(r"\w[\w.+-]{0,199}")


class RunFolder:
    """The folder of one run; secrets are masked in all that is kept in it but artifacts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def raw(self) -> Path:
        """Return where the processes' own output goes, byte for byte; secrets are masked in it at the end."""
        return self.path / "raw"

    def node(self, node: int) -> Path:
        """Return where a node's launcher puts the files of its processes while they run."""
        return self.raw / f"node{node}"

    def agent(self, node: int) -> Path:
        """Return the file of what a node's launcher itself prints."""
        return self.raw / f"node{node}-agent.log"

    def open_agent(self, node: int) -> BinaryIO:
        """Make a node's folder, and open the file that takes what its launcher itself prints."""
        require_folder(self.raw)
        with suppress(FileExistsError):
            self.node(node).mkdir()
        require_folder(self.node(node))
        return files.create_file(self.agent(node), below=self.path)

    def keep_longer_agent(self, node: int, chunks: Iterable[bytes]) -> None:
        """Keep what a node's launcher printed, read again, if that is more than was kept."""
        kept = self.agent(node)
        again = kept.with_suffix(".again")
        with files.create_file(again, below=self.path) as output:
            try:
                for chunk in chunks:
                    output.write(chunk)
            finally:
                output.flush()
                if not files.is_file(kept) or output.tell() > kept.stat().st_size:
                    files.move_file(again, kept, below=self.path)
                else:
                    again.unlink()

    def raw_files(self, layout: Layout) -> RawFiles:
        """Look for what lies in `raw/`, once."""
        return RawFiles(self.raw, layout)

    def held(self) -> AbstractContextManager[None]:
        """Hold the run while its runner or one of its nodes lives; the kernel lets go of it however this process ends.

        A disk that knows no locks (`flock`) holds nothing; OSError if there is no such folder.
        """
        return self._locked(fcntl.LOCK_SH)

    def held_alone(self, seconds: float = 1.0) -> AbstractContextManager[None]:
        """Hold the run against everybody else; BlockingIOError if somebody holds it for so long."""
        return self._locked(fcntl.LOCK_EX | fcntl.LOCK_NB, seconds)

    @contextmanager
    def _locked(self, how: int, seconds: float = 0.0) -> Iterator[None]:
        until = clock.monotonic() + seconds
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            while True:
                try:
                    fcntl.flock(descriptor, how)
                    break
                except BlockingIOError:  # `is_held` of another process holds it for a moment
                    if clock.monotonic() > until:
                        raise
                    clock.sleep(_AGAIN_SECONDS)
                except OSError as error:
                    if error.errno not in _NO_LOCKS:
                        raise
                    break
            yield
        finally:
            os.close(descriptor)

    def is_held(self) -> bool:
        """Return whether the runner or a node of the run still lives, also in a container of this machine."""
        try:
            with self.held_alone(0):
                return False
        except BlockingIOError:
            return True

    def keep_exit(self, ended: NodeExit) -> None:
        """Keep how one node ended, as its own launcher reports."""
        self._write(self.raw / f"node{ended.node}-exit.json", msgspec.json.encode(ended) + b"\n")

    def exits(self, raw: RawFiles) -> tuple[list[NodeExit], list[str]]:
        """Read how the nodes ended whose launchers lived to report it, and say which of these files are broken."""
        exits, broken = [], []
        for _, path in sorted(raw.exits.items()):
            try:
                exits.append(decode(files.read_file(path, _LARGEST_EXIT, below=self.path), NodeExit))
            except (OSError, ValueError) as error:
                broken.append(f"raw/{path.name}: left out: {reason_of(error)}")
        return exits, broken

    def keep_recording(self, recording: Path) -> Path:
        """Copy a recorded stdout to where rank 0's output goes."""
        kept = self.raw / "node0-rank0.stdout"
        with files.open_file(recording) as source, files.create_file(kept, below=self.path) as target:
            shutil.copyfileobj(source, target)
        return kept

    def end_of(self, path: Path | None, most: int) -> str:
        """Read the last bytes of one of the run's files; empty for one that cannot be read."""
        if path is None:
            return ""
        try:
            with files.open_file(path, self.path) as file:
                file.seek(max(0, file.seek(0, 2) - most))
                return file.read(most).decode("utf-8", "replace")
        except OSError:
            return ""

    def read(self) -> Record:
        """Read `run.json`; ValueError says what is wrong with it."""
        return read_record(self._read(self.path / "run.json"))

    def finished(self) -> Record | None:
        """Return the record of a run that has ended; None if there is none, or none that can be read."""
        try:
            record = self.read()
        except (OSError, ValueError):
            return None
        return record if record.status in FINISHED else None

    def launch(self) -> Launch:
        """Read what was known before the launch; ValueError says what is wrong with it."""
        return read_launch(self._read(self.path / "request" / "launch.json"))

    def outcome(self) -> Outcome | None:
        """Read what was seen from outside; None where the runner did not live to write it."""
        try:
            data = self._read(self.raw / "outcome.json")
        except FileNotFoundError:
            return None
        return decode(data, Outcome)

    def finish(self, record: Record) -> None:
        """Write the final state; a run that has one already is left alone."""
        if self.finished():
            raise RequestError(f"{self.path}: the run has ended; its record is not written again")
        self.replace(record)
        self.seal()

    def seal(self) -> None:
        """Write the manifest of what the folder holds now (`runner.records.manifest`).

        A record is worth more than its manifest: if there is no room for one, verifying the run says that it is gone.
        """
        with suppress(OSError):
            self._write(self.path / manifest.NAME, manifest.write(manifest.make(self.path)))

    def reseal(self, replaced: str, why: str) -> None:
        """Let the manifest follow a file that was written again; whatever else was altered since then stays found.

        A run without a manifest gets one, which says that it was made later; a broken one is left as it is.
        """
        with suppress(OSError, ValueError):
            try:
                known = self.kept_manifest()
            except FileNotFoundError:
                known = manifest.make(self.path, [manifest.LATER])
            known.entries[replaced] = manifest.hash_file(self.path / replaced, self.path)
            known.said = [*dict.fromkeys([*known.said, why])]
            self._write(self.path / manifest.NAME, manifest.write(known))

    def kept_manifest(self) -> manifest.Manifest:
        """Read the manifest; ValueError for one that was altered, OSError if there is none that can be read."""
        return manifest.read(files.read_file(self.path / manifest.NAME, manifest.LARGEST, below=self.path))

    def replace(self, record: Record) -> None:
        """Put a record that was parsed again in place of the one that is there."""
        self._write(self.path / "run.json", _text(record))

    def keep_outcome(self, outcome: Outcome) -> None:
        """Keep what was seen from outside, and give each process's file its lasting name."""
        self.name_outputs()
        self._write(self.raw / "outcome.json", _text(outcome))

    def name_outputs(self) -> None:
        """Give each process's file its lasting name, all of them having ended, and mask secrets in it."""
        raw = self.raw_files(Layout.parse(self.launch().layout))
        for (rank, stream), path in raw.workers.items():
            lasting = self.raw / f"node{raw.layout.node_of(rank)}-rank{rank}.{stream}"
            if (rank, stream) not in raw.outputs:
                files.move_file(path, lasting, below=self.path)
        for node in range(raw.layout.nodes):
            if files.is_folder(self.node(node)):
                files.remove_empty_folders(self.node(node), below=self.path)
        for name in manifest.listing(self.raw)[0] if files.is_folder(self.raw) else ():
            self._mask(self.raw / name)

    def _mask(self, path: Path) -> None:
        """Mask secrets in what was printed: it is written again only if there are any, and not if nothing reads it."""
        with files.open_file(path, self.path) as file:
            if os.fstat(file.fileno()).st_size > manifest.LARGEST_FILE:
                return
            if all(mask(block) == block for block in _blocks(file)):
                return
            masked = path.with_name(f".{path.name}.masked.tmp")
            file.seek(0)
            with files.create_file(masked, below=self.path) as output:
                output.writelines(map(mask, _blocks(file)))
                output.flush()
                os.fsync(output.fileno())
        files.move_file(masked, path, below=self.path)

    def remove_unfinished(self) -> None:
        """Remove files that a killed runner was about to write; each would have been renamed."""
        for folder in (self.path, self.raw, self.path / "request"):
            if files.is_folder(folder):
                for path in folder.iterdir():
                    if _UNFINISHED.fullmatch(path.name) and files.is_file(path):
                        path.unlink(missing_ok=True)

    def write_request(self, launch: Launch, request: str, diff: str, file: str) -> None:
        """Write what is started, as it is known before."""
        self._write(self.path / "request" / "launch.json", _text(launch))
        self._write(self.path / "request" / file, request.encode())
        if diff:
            self._write(self.path / "request" / "code.diff", diff.encode("utf-8", "surrogateescape"))

    def discard(self) -> None:
        """Remove the run, of which there will be another record."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _read(self, path: Path) -> bytes:
        return files.read_file(path, LARGEST_RECORD, below=self.path)

    def _write(self, path: Path, data: bytes) -> None:
        files.write_file(path, data if path.name == manifest.NAME else mask(data), below=self.path)


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """Read a file in blocks of whole lines; a line that is longer than a block is cut."""
    while block := file.read(_BLOCK):
        yield block + file.readline(_BLOCK)


def new_id(target: str) -> str:
    """Make the name of a run: when, where, and four bytes of chance."""
    return f"{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}-{target}-{secrets.token_hex(4)}"


def require_writable(results: Path) -> None:
    """Raise RequestError where no run's folder could be made."""
    existing = next(path for path in (results.absolute(), *results.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        why = os.strerror(errno.EACCES if existing.is_dir() else errno.ENOTDIR)
        raise RequestError(_unwritable(results, why))


def keep_out_of_git(results: Path) -> None:
    """Make the folder of the records, if it is not there, as one that git ignores; the repository stays as it is."""
    if not results.exists():
        with suppress(OSError):  # the first run says why it cannot be written
            results.mkdir()
            (results / ".gitignore").write_text("*\n")


def _unwritable(path: Path, why: str | None) -> str:
    return f"{path}: cannot be written: {why}; name another folder with --results"


def begin(results: Path, launch: Launch, request: str, diff: str, file: str = "request.json") -> RunFolder:
    """Make a run's folder with its request and its record, `running`; RequestError if it cannot be written.

    The names of the experiment and of the run have to stay in their folders: an id may come from another machine.
    """
    for name in (launch.experiment, launch.id):
        if not _NAME.fullmatch(name):
            raise RequestError(f"{name!r} is no name for a folder in {results}")
    folder = RunFolder(results / launch.experiment / launch.id)
    made = False
    try:
        folder.path.parent.mkdir(parents=True, exist_ok=True)
        require_folder(folder.path.parent)
        folder.path.mkdir()
        made = True
        for inner in ("raw", "request", "artifacts"):
            (folder.path / inner).mkdir()
        folder.write_request(launch, request, diff, file)
        folder.replace(Record(launch=launch, status="running"))
    except OSError as error:
        if made:
            folder.discard()
        raise RequestError(_unwritable(folder.path, error.strerror)) from None
    return folder


def _text(value: Record | Launch | Outcome) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1)


def require_folder(path: Path) -> None:
    """Raise OSError where something else than a folder lies, or a link."""
    if not files.is_folder(path):
        raise OSError(errno.ENOTDIR, f"{path.name} is no folder, or a link", str(path))
