"""Record <-> `results/`: the only writer there.

A run's folder is `results/<experiment>/<UTC time>-<target>-<id>/`. `run.json` says `running` before anything is
started and is replaced whole (written beside, flushed to the disk, renamed), so that a kill at any moment leaves one
of the two. `raw/` is the truth: all else of a record is parsed from it, from `request/launch.json` and from
`raw/outcome.json`, and can be parsed again.
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
"""Errors of disks without locks."""
_LASTING = re.compile(r"node(\d{1,9})-(?:rank(\d{1,9})\.(stdout|stderr|error\.json|seen)|(agent)\.log|(exit)\.json)")
_WORKER = re.compile(r"node(\d{1,9})/[^/]+/attempt_\d{1,9}/(\d{1,9})/(stdout|stderr|error\.json)(?:\.log)?")
_NAME = re.compile(r"\w[\w.+-]{0,199}")
"""A name that stays in its folder: an id may come from a cluster."""


class RawFiles:
    """The files of `raw/`, listed in one walk: each process's output, each launcher's, and how each node ended.

    A process's file has its lasting name once the run has ended; before that it is where torchrun put it.
    """

    def __init__(self, raw: Path, layout: Layout) -> None:
        self.layout = layout
        self.outputs: dict[tuple[int, str], Path] = {}
        self.agents: dict[int, Path] = {}
        self.exits: dict[int, Path] = {}
        self.last_written = 0.0
        for folder, folders, names in os.walk(raw):
            folders.sort()  # the last attempt of a process counts
            for path in (Path(folder, name) for name in names):
                with suppress(FileNotFoundError):  # it has just gone
                    status = path.lstat()
                    if stat.S_ISREG(status.st_mode):
                        self.last_written = max(self.last_written, status.st_mtime)
                        self._sort(path.relative_to(raw).as_posix(), path)

    def output(self, rank: int, stream: str) -> Path | None:
        """Return the file of one process: `stdout`, `stderr`, `error.json` (torch) or `seen` (the hooks)."""
        return self.outputs.get((rank, stream))

    def printed(self) -> Iterator[tuple[int, Path]]:
        """Yield each file with output of processes, with the first rank that it may belong to.

        A pod has one log for its launcher and all processes: the launcher's file.
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
    """Read the last bytes of a file; empty for one that cannot be read."""
    with suppress(OSError):
        if path:
            with path.open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - most))
                return file.read(most).decode("utf-8", "replace")
    return ""


class RunFolder:
    """The folder of one run; secrets are masked in all that is kept in it but artifacts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def raw(self) -> Path:
        """Return the folder for all output, byte for byte; secrets are masked in it at the end."""
        return self.path / "raw"

    def node(self, node: int) -> Path:
        """Return the folder of a node's processes while they run."""
        return self.raw / f"node{node}"

    def agent(self, node: int) -> Path:
        """Return the file for the output of a node's launcher."""
        return self.raw / f"node{node}-agent.log"

    def open_agent(self, node: int) -> BinaryIO:
        """Make a node's folder, and open the file for the output of its launcher."""
        self.node(node).mkdir(exist_ok=True)
        return self.agent(node).open("wb")

    def keep_longer_agent(self, node: int, chunks: Iterable[bytes]) -> None:
        """Keep the log of a node's launcher, read again, if it is longer than the one that was kept."""
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
        """Lock the run while its runner or one of its nodes lives; the kernel unlocks it however this process ends.

        Without effect on a disk without `flock`; OSError if there is no such folder.
        """
        return self._locked(fcntl.LOCK_SH)

    def held_alone(self, seconds: float = 1.0) -> AbstractContextManager[None]:
        """Lock the run exclusively; BlockingIOError if somebody holds it for so long."""
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
        """Return whether the runner or a node of the run still lives, in a container of this machine too."""
        try:
            with self.held_alone(0):
                return False
        except BlockingIOError:
            return True

    def keep_exit(self, ended: NodeExit) -> None:
        """Write how one node ended, as its own launcher reports."""
        _write(self.raw / f"node{ended.node}-exit.json", msgspec.json.encode(ended) + b"\n")

    def exits(self, raw: RawFiles, doubts: Doubts) -> dict[int, NodeExit]:
        """Read how nodes ended, as far as their launchers reported it; a broken file is a doubt."""
        exits = {}
        for node, path in sorted(raw.exits.items()):
            try:
                exits[node] = decode(path.read_bytes(), NodeExit)
            except (OSError, ValueError) as error:
                doubts[f"raw/{path.name}: left out: {reason_of(error)}"] = None
        return exits

    def read(self) -> Record:
        """Read `run.json`; ValueError says what is wrong with it."""
        return read_record((self.path / RECORD).read_bytes())

    def finished(self) -> Record | None:
        """Return the record of a run that has ended; None if there is none, or none that can be read."""
        with suppress(OSError, ValueError):
            record = self.read()
            return record if record.status in FINISHED else None
        return None

    def launch(self) -> Launch:
        """Read `request/launch.json`; ValueError says what is wrong with it."""
        return read_launch((self.path / "request" / "launch.json").read_bytes())

    def outcome(self) -> Outcome | None:
        """Read `raw/outcome.json`; None if the runner was killed before it wrote it."""
        try:
            return decode((self.raw / "outcome.json").read_bytes(), Outcome)
        except FileNotFoundError:
            return None

    def finish(self, record: Record) -> None:
        """Write the final record; refuse if there is one."""
        if self.finished():
            raise RequestError(f"{self.path}: the run has ended; its record is not written again")
        self.replace(record)
        self.seal()

    def replace(self, record: Record) -> None:
        """Put a record in place of the one that is there."""
        _write(self.path / RECORD, _text(record))

    def seal(self) -> None:
        """Write the manifest of what the folder holds now (`runner.records.manifest`).

        A record is worth more than its manifest: if there is no room for one, verifying the run says that it is gone.
        """
        with suppress(OSError):
            write_file(self.path / manifest.NAME, manifest.write(manifest.make(self.path)))

    def reseal(self, replaced: str, why: str) -> None:
        """Let the manifest follow a file that was written again; whatever else was altered since then stays found.

        A run without a manifest gets one, which says that it was made later; a broken one is left as it is.
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
        """Read the manifest; ValueError for one that was altered, OSError if there is none that can be read."""
        return manifest.read((self.path / manifest.NAME).read_bytes())

    def keep_outcome(self, outcome: Outcome) -> None:
        """Write `raw/outcome.json`, and give each process's file its lasting name."""
        self.name_outputs()
        _write(self.raw / "outcome.json", _text(outcome))

    def name_outputs(self) -> None:
        """Give each process's file its lasting name after all have ended, and mask secrets in `raw/`."""
        raw = self.raw_files(Layout.parse(self.launch().layout))
        for (rank, stream), path in raw.outputs.items():
            path.rename(self.raw / f"node{raw.layout.node_of(rank)}-rank{rank}.{stream}")
        for folder, _, names in os.walk(self.raw, topdown=False):
            for path in (Path(folder, name) for name in names):
                if path.is_file():
                    _mask(path)
            with suppress(OSError):  # it is not empty
                Path(folder).rmdir() if folder != str(self.raw) else None

    def remove_unfinished(self) -> None:
        """Remove files that a killed runner was about to write; each would have been renamed."""
        for path in (*self.path.glob(".*.tmp"), *self.path.glob("r*/.*.tmp")):  # raw/ and request/
            path.unlink(missing_ok=True)

    def write_request(self, launch: Launch, request: str, diff: str, file: str) -> None:
        """Write the launch, the request and the uncommitted changes."""
        _write(self.path / "request" / "launch.json", _text(launch))
        _write(self.path / "request" / file, request.encode())
        if diff:
            _write(self.path / "request" / "code.diff", diff.encode("utf-8", "surrogateescape"))

    def discard(self) -> None:
        """Remove the run, of which there will be another record."""
        shutil.rmtree(self.path, ignore_errors=True)


def begin(results: Path, launch: Launch, request: str, diff: str, file: str = "request.json") -> RunFolder:
    """Make a run's folder with its request and its record, `running`; RequestError if it cannot be written."""
    for name in (launch.experiment, launch.id):
        if not _NAME.fullmatch(name):
            raise RequestError(f"{name!r} is no name for a folder in {results}")
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
    """Make the name of a run: when, where, and four bytes of chance."""
    return f"{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}-{target}-{secrets.token_hex(4)}"


def require_writable(results: Path) -> None:
    """Raise RequestError if no run's folder can be made there."""
    existing = next(path for path in (results.absolute(), *results.absolute().parents) if path.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
        raise _unwritable(results, f"{existing} is no folder, or not writable")


def keep_out_of_git(results: Path) -> None:
    """Make the folder of the records, ignored by git, if it does not exist; the repository stays as it is."""
    if not results.exists():
        with suppress(OSError):  # the first run says why it cannot be written
            results.mkdir()
            (results / ".gitignore").write_text("*\n")


def _unwritable(path: Path, why: str | None) -> RequestError:
    return RequestError(f"{path}: cannot be written: {why}; name another folder with --results")


def _write(path: Path, data: bytes) -> None:
    write_file(path, mask(data))


def _text(value: Record | Launch | Outcome) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1)


def _mask(path: Path) -> None:
    """Mask secrets in what was printed: the file is written again only if there are any."""
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
    """Read a file in blocks of whole lines; a line that is longer than a block is cut."""
    while block := file.read(_BLOCK):
        yield block + file.readline(_BLOCK)
