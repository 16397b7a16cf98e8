"""Run a check on another host or in a container: send the project and the check, and return the verdict."""

import io
import json
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from runner.core.errors import RequestError, reason_of
from runner.core.text import one_line
from runner.definitions.plan import Run
from runner.targets.base import Target
from runner.targets.ssh import cargo
from runner.tools.check.mistakes import Verdict
from runner.tools.check.processes import Program
from runner.tools.check.remote import MARK

_KIT = Path(__file__).parents[2]
_SENT = ("core/clock.py", "core/ports.py", "core/text.py", "core/parent.py", "targets/clean_environment.py")
_MOST_RUNS = 6
_NOT_SENT = ("check_command.py", "elsewhere.py")
_BOOT = (
    "import atexit,shutil,sys,tarfile,tempfile;sys.dont_write_bytecode=True;"
    "f=tempfile.mkdtemp(prefix='kit-sent-');atexit.register(shutil.rmtree,f,True);"
    "tarfile.open(fileobj=sys.stdin.buffer,mode='r|').extractall(f);sys.path.insert(0,f+'/kit');"
    "from runner.tools.check.remote import main;main(f)"
)


def check_elsewhere(
    target: Target[Any],
    run: Run,
    program: Program,
    world: int,
    seconds: float,
    say: Callable[[str], None],
    again: list[str] | None,
) -> Verdict:
    """Check a program on a target's host or in its container; raise RequestError if the check cannot run there."""
    asked = {"program": asdict(program), "world": world, "seconds": seconds, "again": again}
    spec = target.spec(run)
    target.preflight(spec)
    try:
        printed = target.once(spec, ["-c", _BOOT], _archive(run, asked), _MOST_RUNS * seconds, say).decode(
            "utf-8", "replace"
        )
        head, mark, answer = printed.rpartition(MARK)
        if not mark:
            last = [line for line in head.splitlines() if line.strip()][-1:]
            raise RequestError(one_line(f"target {target.name}: the check did not finish: {''.join(last)}", 500))
        return msgspec.json.decode(answer.strip(), type=Verdict)
    except (OSError, msgspec.DecodeError) as error:
        raise RequestError(one_line(f"target {target.name}: {reason_of(error)}", 500)) from None


def _archive(run: Run, asked: dict[str, Any]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, data in (*_of_project(run), *_of_kit(), ("request.json", json.dumps(asked, default=str).encode())):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o644
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def _of_project(run: Run) -> Iterator[tuple[str, bytes]]:
    for place, brought in (("work", cargo.programs(run)), ("work/data", cargo.data(run))):
        for root, names in brought.items():
            for name in sorted(names):
                yield f"{place}/{name}", (root / name).read_bytes()


def _of_kit() -> Iterator[tuple[str, bytes]]:
    paths = [path for path in Path(__file__).parent.rglob("*.py") if path.name not in _NOT_SENT]
    for path in (*(_KIT / name for name in _SENT), *paths):
        yield f"kit/runner/{path.relative_to(_KIT).as_posix()}", path.read_bytes()
    for package in ("", "core/", "tools/"):
        yield f"kit/runner/{package}__init__.py", b""
