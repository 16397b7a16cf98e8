"""Read and write the folders of runs.

A run's folder is `results/<experiment>/<UTC time>-<target>-<id>/`. Before anything starts, `run.json` is written with
the status `running`. At the end of the run, the full record replaces this file atomically. The record can be parsed
again from `raw/` and `request/` at any time.
"""

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
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
from runner.records.listing import RECORD
from runner.records.schema import FINISHED, Doubts, Launch, NodeExit, Outcome, Record, decode, read_launch, read_record
from trainkit.files import write_file

_BLOCK = 4_000_000
_AGAIN_SECONDS = 0.05
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_LASTING = re.compile(r"node(\d{1,9})-(?:rank(\d{1,9})\.(stdout|stderr|error\.json|seen)|(agent)\.log|(exit)\.json)")
_WORKER = re.compile(r"node(\d{1,9})/[^/]+/attempt_\d{1,9}/(\d{1,9})/(stdout|stderr|error\.json)(?:\.log)?")
_NAME = re.compile(r"\w[\w.+-]{0,199}")
"""Valid name of a folder, checked because an id may come from a cluster."""


class RawFiles:
    """Files of `raw/`: output of each process, log of each launcher, exit report of each node.

    During the run, the files of processes have torchrun's paths. At its end they get their final names.
    """

    def __init__(self, raw: Path, layout: Layout) -> None:
        self.layout = layout
        self.outputs: dict[tuple[int, str], Path] = {}
        self.agents: dict[int, Path] = {}
        self.exits: dict[int, Path] = {}
        self.last_written = 0.0
        for folder, folders, names in os.walk(raw):
            folders.sort()  # a process's last attempt counts
            for path in (Path(folder, name) for name in names):
                with suppress(FileNotFoundError):
                    status = path.lstat()
                    if stat.S_ISREG(status.st_mode):
                        self.last_written = max(self.last_written, status.st_mtime)
                        self._sort(path.relative_to(raw).as_posix(), path)

    def output(self, rank: int, stream: str) -> Path | None:
        """Return the path of a rank's file; None if it is missing.

        `stream` is `stdout`, `stderr`, `error.json` (by torch) or `seen` (by targets/hooks).
        """
        return self.outputs.get((rank, stream))

    def printed(self) -> Iterator[tuple[int, Path]]:
        """Yield the path of each rank's stdout, and of each node's launcher log, with a rank.

        A launcher's log has the first rank of its node. In a pod, this log includes the output of the processes.
        """
        yield from ((rank, path) for (rank, stream), path in sorted(self.outputs.items()) if stream == "stdout")
        yield from ((self.layout.first_rank(node), path) for node, path in sorted(self.agents.items()))

    def _sort(self, name: str, path: Path) -> None:
        layout = self.layout
        if lasting := _LASTING.fullmatch(name):
            node, rank, stream, agent, _ = lasting.groups()
            if stream and int(rank) < layout.world_size:
                self.outputs[int(rank), stream] = path
            elif not stream and int(node) < layout.nodes:
                (self.agents if agent else self.exits)[int(node)] = path
        elif worker := _WORKER.fullmatch(name):
            node, local_rank = int(worker[1]), int(worker[2])
            if node < layout.nodes and local_rank < layout.processes[node]:
                key = layout.first_rank(node) + local_rank, worker[3]
                if not _LASTING.fullmatch(self.outputs.get(key, path).name):
                    self.outputs[key] = path


def end_of(path: Path | None, most: int) -> str:
    """Return the last `most` bytes of a file as text; '' if it cannot be read."""
    with suppress(OSError):
        if path:
            with path.open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - most))
                return file.read(most).decode("utf-8", "replace")
    return ""


class RunFolder:
    """Folder of one run. Secrets are masked in all files except artifacts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def raw(self) -> Path:
        """Return the folder of all output. Secrets in its files are masked when the run ends."""
        return self.path / "raw"

    def node(self, node: int) -> Path:
        """Return the folder of a node's processes while they run."""
        return self.raw / f"node{node}"

    def agent(self, node: int) -> Path:
        """Return the path of the log of a node's launcher."""
        return self.raw / f"node{node}-agent.log"

    def open_agent(self, node: int) -> BinaryIO:
        """Create a node's folder, and open the log of its launcher for writing."""
        self.node(node).mkdir(exist_ok=True)
        return self.agent(node).open("wb")

    def keep_longer_agent(self, node: int, chunks: Iterable[bytes]) -> None:
        """Replace the log of a node's launcher if the newly fetched log is longer."""
        kept = self.agent(node)
        again = kept.with_suffix(".again")
        try:
            with again.open("wb") as output:
                output.writelines(chunks)
        finally:
            if not kept.exists() or again.stat().st_size > kept.stat().st_size:
                again.replace(kept)
            again.unlink(missing_ok=True)

    def raw_files(self, layout: Layout) -> RawFiles:
        """List the files in `raw/`."""
        return RawFiles(self.raw, layout)

    def held(self) -> AbstractContextManager[None]:
        """Hold a lock on the run, which shows that this process lives.

        The runner and the nodes of a run hold the lock together. The kernel releases the lock however the process ends.
        If the file system has no `flock`, nothing is locked. Raises OSError if the folder does not exist.
        """
        return self._locked(fcntl.LOCK_SH)

    def held_alone(self, seconds: float = 1.0) -> AbstractContextManager[None]:
        """Lock the run exclusively. Raises BlockingIOError if another process still holds a lock after `seconds`."""
        return self._locked(fcntl.LOCK_EX | fcntl.LOCK_NB, seconds)

    @contextmanager
    def _locked(self, how: int, seconds: float = 0.0) -> Iterator[None]:
        until = clock.monotonic() + seconds
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            while True:
                try:
                    fcntl.flock(descriptor, how)
                    break
                except BlockingIOError:  # another process may lock the run briefly, in `is_held`
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
        """Return whether the runner or a node of the run still lives."""
        try:
            with self.held_alone(0):
                return False
        except BlockingIOError:
            return True

    def keep_exit(self, ended: NodeExit) -> None:
        """Write the exit report of one node."""
        _write(self.raw / f"node{ended.node}-exit.json", msgspec.json.encode(ended) + b"\n")

    def exits(self, raw: RawFiles, doubts: Doubts) -> dict[int, NodeExit]:
        """Read the exit reports of nodes. Each unreadable file becomes a doubt."""
        exits = {}
        for node, path in sorted(raw.exits.items()):
            try:
                exits[node] = decode(path.read_bytes(), NodeExit)
            except (OSError, ValueError) as error:
                doubts[f"raw/{path.name}: left out: {reason_of(error)}"] = None
        return exits

    def read(self) -> Record:
        """Read `run.json`. Raises ValueError if it is invalid."""
        return read_record((self.path / RECORD).read_bytes())

    def finished(self) -> Record | None:
        """Return the record of a finished run; None if the run is unfinished or the record cannot be read."""
        with suppress(OSError, ValueError):
            record = self.read()
            return record if record.status in FINISHED else None
        return None

    def launch(self) -> Launch:
        """Read `request/launch.json`. Raises ValueError if it is invalid."""
        return read_launch((self.path / "request" / "launch.json").read_bytes())

    def outcome(self) -> Outcome | None:
        """Read `raw/outcome.json`. Returns None if the runner was killed before it wrote the file."""
        try:
            return decode((self.raw / "outcome.json").read_bytes(), Outcome)
        except FileNotFoundError:
            return None

    def finish(self, record: Record) -> None:
        """Write the final record and the manifest. Raises RequestError if the run already has a final record."""
        if self.finished():
            raise RequestError(f"{self.path}: the run has ended: its record cannot be written again")
        self.replace(record)
        self.seal()

    def replace(self, record: Record) -> None:
        """Write `run.json`, replacing any existing record."""
        _write(self.path / RECORD, _text(record))

    def seal(self) -> None:
        """Write the folder's manifest. If that fails, `runner verify` reports that the manifest is missing."""
        with suppress(OSError):
            write_file(self.path / manifest.NAME, manifest.write(manifest.make(self.path)))

    def reseal(self, replaced: str, why: str) -> None:
        """Update the manifest's hash of a rewritten file, so that other alterations remain detectable.

        If the manifest is missing, a new one is made, and states that it was made later. An invalid manifest stays as
        it is.
        """
        with suppress(OSError, ValueError):
            try:
                kept = self.kept_manifest()
            except FileNotFoundError:
                kept = manifest.make(self.path, [manifest.LATER])
            kept.entries[replaced] = manifest.hash_file(self.path / replaced)
            kept.said = [*dict.fromkeys([*kept.said, why])]
            write_file(self.path / manifest.NAME, manifest.write(kept))

    def kept_manifest(self) -> manifest.Manifest:
        """Read the manifest. Raises ValueError if it was altered, OSError if it is unreadable."""
        return manifest.read((self.path / manifest.NAME).read_bytes())

    def keep_outcome(self, outcome: Outcome) -> None:
        """Write `raw/outcome.json`, and give the files of all processes their final names."""
        self.name_outputs()
        _write(self.raw / "outcome.json", _text(outcome))

    def name_outputs(self) -> None:
        """Give the files of all processes their final names, and mask secrets in `raw/`."""
        raw = self.raw_files(Layout.parse(self.launch().layout))
        for (rank, stream), path in raw.outputs.items():
            path.rename(self.raw / f"node{raw.layout.node_of(rank)}-rank{rank}.{stream}")
        for folder, _, names in os.walk(self.raw, topdown=False):
            for path in (Path(folder, name) for name in names):
                if path.is_file():
                    _mask(path)
            with suppress(OSError):  # the folder is not empty
                Path(folder).rmdir() if folder != str(self.raw) else None

    def remove_unfinished(self) -> None:
        """Remove temporary files that a killed runner left behind."""
        for path in (*self.path.glob(".*.tmp"), *self.path.glob("r*/.*.tmp")):  # raw/ and request/
            path.unlink(missing_ok=True)

    def write_request(self, launch: Launch, request: str, diff: str, file: str) -> None:
        """Write the launch, the request and the uncommitted changes of the code."""
        _write(self.path / "request" / "launch.json", _text(launch))
        _write(self.path / "request" / file, request.encode())
        if diff:
            _write(self.path / "request" / "code.diff", diff.encode("utf-8", "surrogateescape"))

    def discard(self) -> None:
        """Remove the folder of the run."""
        shutil.rmtree(self.path, ignore_errors=True)


def begin(results: Path, launch: Launch, request: str, diff: str, file: str = "request.json") -> RunFolder:
    """Create a run's folder with a record of status `running`.

    Raises RequestError if the folder cannot be written.
    """
    for name in (launch.experiment, launch.id):
        if not _NAME.fullmatch(name):
            raise RequestError(f"{name!r} is not a valid folder name in {results}")
    folder = RunFolder(results / launch.experiment / launch.id)
    try:
        folder.path.mkdir(parents=True)
    except OSError as error:
        raise _unwritable(folder.path, error.strerror) from None
    try:
        for inner in ("raw", "request", "artifacts"):
            (folder.path / inner).mkdir()
        folder.write_request(launch, request, diff, file)
        folder.replace(Record(launch=launch, status="running"))
    except OSError as error:
        folder.discard()
        raise _unwritable(folder.path, error.strerror) from None
    return folder


def new_id(target: str) -> str:
    """Return a new run id: UTC time, target, and four random bytes in hex."""
    return f"{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}-{target}-{secrets.token_hex(4)}"


def require_writable(results: Path) -> None:
    """Raise RequestError if no run's folder can be created in `results`."""
    existing = next(path for path in (results.absolute(), *results.absolute().parents) if path.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
        raise _unwritable(results, f"{existing} is not a folder, or not writable")


def keep_out_of_git(results: Path) -> None:
    """Create the results folder if it is missing, with a `.gitignore` for all its contents."""
    if not results.exists():
        with suppress(OSError):  # the first run reports the error
            results.mkdir()
            (results / ".gitignore").write_text("*\n")


def _unwritable(path: Path, why: str | None) -> RequestError:
    return RequestError(f"{path}: cannot be written: {why}; name another folder with --results")


def _write(path: Path, data: bytes) -> None:
    write_file(path, mask(data))


def _text(value: Record | Launch | Outcome) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1)


def _mask(path: Path) -> None:
    with path.open("rb") as file:
        if all(mask(block) == block for block in _blocks(file)):
            return
        file.seek(0)
        masked = path.with_name(f".{path.name}.masked.tmp")
        with masked.open("wb") as output:
            output.writelines(map(mask, _blocks(file)))
            output.flush()
            os.fsync(output.fileno())
    masked.replace(path)


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(_BLOCK):
        yield block + file.readline(_BLOCK)
