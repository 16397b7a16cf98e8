"""Record <-> `results/`: the only writer there.

A run's folder is `results/<experiment>/<UTC time>-<target>-<id>/`. `run.json` says `running` before anything is
started and is replaced whole (written beside, flushed to the disk, renamed), so that a kill at any moment leaves one
of the two. `raw/` is the truth: all else of a record is parsed from it, from `request/launch.json` and from
`raw/outcome.json`, and can be parsed again.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from runner.errors import RequestError
from runner.layout import Layout
from runner.schema import FINISHED, SCHEMA, Launch, NodeExit, Outcome, Record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_decoder = msgspec.json.Decoder(Record)
_AGENT = "agent"


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def raw(self) -> Path:
        """Where the processes' own output goes, byte for byte."""
        return self.path / "raw"

    def node(self, node: int) -> Path:
        """Where a node's launcher puts the files of its processes while they run."""
        return self.raw / f"node{node}"

    def agent(self, node: int) -> Path:
        """Return the file of what a node's launcher itself prints."""
        return self.raw / f"node{node}-{_AGENT}.log"

    def open_agent(self, node: int) -> BinaryIO:
        """Make a node's folder, and open the file that takes what its launcher itself prints."""
        self.node(node).mkdir(exist_ok=True)
        return self.agent(node).open("wb")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the run while one of its nodes lives; the kernel lets go of it however this process ends."""
        with (self.path / "request" / "launch.json").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield

    def is_held(self) -> bool:
        """Tell whether a node of the run still lives, also in a container of this machine."""
        with (self.path / "request" / "launch.json").open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def keep_exit(self, ended: NodeExit) -> None:
        """Keep how one node ended, told by its own launcher."""
        _write(self.raw / f"node{ended.node}-exit.json", msgspec.json.encode(ended) + b"\n")

    def exits(self) -> list[NodeExit]:
        """Read how the nodes ended whose launchers lived to tell."""
        paths = sorted(self.raw.glob("node*-exit.json"))
        return [msgspec.json.decode(path.read_bytes(), type=NodeExit) for path in paths]

    def last_written(self) -> float:
        """Return when the last of the raw files was written, in seconds of the epoch."""
        paths = [path for path in self.raw.rglob("*") if path.is_file()] or [self.path]
        return max(path.stat().st_mtime for path in paths)

    def keep_recording(self, recording: Path) -> Path:
        """Copy a recorded stdout to where rank 0's output goes."""
        kept = self.raw / "node0-rank0.stdout"
        shutil.copyfile(recording, kept)
        return kept

    def rank(self, layout: Layout, node: int, local_rank: int, stream: str) -> Path:
        """Return the file of one process's stdout or stderr: its own once the run has ended, else its launcher's."""
        kept = self.raw / f"node{node}-rank{layout.first_rank(node) + local_rank}.{stream}"
        if kept.exists():
            return kept
        attempts = sorted(self.node(node).glob(f"*/attempt_*/{local_rank}/{stream}.log"))
        return attempts[-1] if attempts else kept

    def outputs(self, layout: Layout) -> Iterator[tuple[int, Path]]:
        """Yield every file that holds what processes printed, with the first rank that it may be of.

        A pod has one log for its launcher and all of its processes: the launcher's file.
        """
        for node, processes in enumerate(layout.processes):
            first = layout.first_rank(node)
            paths = [(first + one, self.rank(layout, node, one, "stdout")) for one in range(processes)]
            yield from [(rank, path) for rank, path in (*paths, (first, self.agent(node))) if path.exists()]

    def read(self) -> Record:
        """Read `run.json`; ValueError says what is wrong with it."""
        return read_record((self.path / "run.json").read_bytes())

    def launch(self) -> Launch:
        """Read what was known before the launch; ValueError says what is wrong with it."""
        return msgspec.json.decode((self.path / "request" / "launch.json").read_bytes(), type=Launch)

    def finish(self, record: Record) -> None:
        """Write the final state; a run that has one already is left alone."""
        if self.read().status in FINISHED:
            msg = f"{self.path}: the run has ended; its record is not written again"
            raise RequestError(msg)
        self.replace(record)

    def replace(self, record: Record) -> None:
        """Put a record that was parsed again in place of the one that is there."""
        _write(self.path / "run.json", msgspec.json.format(msgspec.json.encode(record), indent=1))

    def keep_outcome(self, outcome: Outcome) -> None:
        """Keep what was seen from outside, and give each process's file its lasting name."""
        layout = Layout.parse(self.read().launch.layout)
        for node, processes in enumerate(layout.processes):
            for local_rank in range(processes):
                for stream in ("stdout", "stderr"):
                    found = self.rank(layout, node, local_rank, stream)
                    lasting = self.raw / f"node{node}-rank{layout.first_rank(node) + local_rank}.{stream}"
                    if found.exists() and found != lasting:
                        found.rename(lasting)
            _remove_empty(self.node(node))
        _write(self.raw / "outcome.json", msgspec.json.format(msgspec.json.encode(outcome), indent=1))

    def discard(self) -> None:
        """Remove the run, of which there will be another record."""
        shutil.rmtree(self.path, ignore_errors=True)

    def outcome(self) -> Outcome | None:
        """Read what was seen from outside, if the runner lived to tell."""
        path = self.raw / "outcome.json"
        return msgspec.json.decode(path.read_bytes(), type=Outcome) if path.exists() else None


def new_id(target: str) -> str:
    """Make the name of a run: when, where, and four bytes of chance."""
    return f"{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}-{target}-{secrets.token_hex(4)}"


def require_writable(results: Path) -> None:
    """Raise RequestError where no run's folder could be made."""
    existing = next(path for path in (results.absolute(), *results.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        why = os.strerror(errno.EACCES if existing.is_dir() else errno.ENOTDIR)
        raise RequestError(_unwritable(results, why))


def _unwritable(path: Path, why: str | None) -> str:
    return f"{path}: cannot be written: {why}; name another folder with --results"


def begin(results: Path, launch: Launch, request: str, diff: str, file: str = "request.json") -> RunFolder:
    """Make a run's folder with its request and its record, `running`; RequestError if it cannot be written."""
    folder = RunFolder(results / launch.experiment / launch.id)
    try:
        folder.raw.mkdir(parents=True)
        (folder.path / "request").mkdir()
        (folder.path / "artifacts").mkdir()
        _write(folder.path / "request" / "launch.json", msgspec.json.format(msgspec.json.encode(launch), indent=1))
        _write(folder.path / "request" / file, request.encode())
        if diff:
            _write(folder.path / "request" / "code.diff", diff.encode("utf-8", "surrogateescape"))
        folder.replace(Record(launch=launch, status="running"))
    except OSError as error:
        shutil.rmtree(folder.path, ignore_errors=True)
        raise RequestError(_unwritable(folder.path, error.strerror)) from None
    return folder


def run_folders(results: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the folders of runs, `results/<experiment>/<run>/`, also where `results` names one experiment's folder."""
    for outer in _folders(results):
        if os.path.exists(os.path.join(outer.path, "run.json")):  # noqa: PTH110, PTH118 - a hundred thousand times
            yield outer
        else:
            yield from _folders(outer.path)


def read_record(data: bytes) -> Record:
    """Decode `run.json`; ValueError says what is wrong: torn, foreign, or of a newer schema."""
    if not data.strip():
        msg = "empty"
        raise ValueError(msg)
    try:
        record = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(_why(data, error)) from None
    if record.launch.schema > SCHEMA:
        raise ValueError(_newer(record.launch.schema))
    return record


def _why(data: bytes, error: Exception) -> str:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as torn:
        return f"torn or no JSON: {torn}"
    launch = value.get("launch") if isinstance(value, dict) else None
    schema = launch.get("schema") if isinstance(launch, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        return _newer(schema)
    return f"no record of this runner: {error}"


def _newer(schema: int) -> str:
    return f"of schema {schema}, newer than this runner's {SCHEMA}: update the runner"


def _folders(path: Path | str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            yield from sorted((entry for entry in entries if entry.is_dir()), key=lambda entry: entry.name)
    except OSError:
        return


def _write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _remove_empty(folder: Path) -> None:
    """Remove the folders that a launcher made, but nothing that it wrote."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
