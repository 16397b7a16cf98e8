"""Plan -> Records: one run after the other, each with its folder, its deadline and its end."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from runner import environment
from runner.collect import collect
from runner.events import Event, parse_line
from runner.liveness import describe_runner
from runner.record import begin, new_id, require_writable
from runner.schema import SCHEMA, Launch, Outcome, Record
from runner.targets.base import Note

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import FrameType

    from runner.console import Screen
    from runner.plan import Plan, Run
    from runner.record import RunFolder
    from runner.targets.base import Execution, NodeRequest, Request, Target


def execute(
    plan: Plan, name: str, target: Target, results: Path, options: dict[str, str], screen: Screen
) -> list[Record]:
    """Run everything in order; the further repeats of a cell that failed are left out, and said to be.

    Raises KeyboardInterrupt after Ctrl-C (or SIGTERM), when what was started has ended and its record is written.
    """
    requests = [target.request(run, options) for run in plan.runs]
    for request in requests:
        target.check(request)
    require_writable(results)  # before minutes are spent on an image
    image = target.image(requests[0], screen)
    code, diff = environment.describe_code(plan.runs[0].experiment.root)
    surroundings = {**describe_surroundings(code), "image": image}
    records: list[Record] = []
    failed: set[str] = set()
    for number, (run, request) in enumerate(zip(plan.runs, requests, strict=True), 1):
        if str(run.cell) in failed:
            screen.left_out(run)
            continue
        launch = describe_launch(run, name, request.nodes, surroundings)
        folder = begin(results, launch, request.text(), diff, request.file)
        screen.begin(number, len(plan.runs), run, folder.path)
        record = _one(target, request, folder, launch, screen)
        screen.end(run, record, folder.path)
        records.append(record)
        if record.status == "interrupted":
            raise KeyboardInterrupt
        if record.status != "completed":
            failed.add(str(run.cell))
    return records


def describe_surroundings(code: dict[str, Any]) -> dict[str, Any]:
    """Describe what every run of this process shares."""
    return {"runner": describe_runner(), "host": environment.describe_host(), "code": code}


def describe_launch(run: Run, target: str, nodes: list[NodeRequest], surroundings: dict[str, Any]) -> Launch:
    """Write down all that is known of a run before it is started."""
    experiment, cell = run.experiment, run.cell
    return Launch(
        schema=SCHEMA,
        id=new_id(target),
        experiment=experiment.name,
        target=target,
        layout=str(cell.layout),
        axes=cell.axes,
        repeat=run.repeat,
        repeats=run.repeats,
        program=cell.program.name,
        args=cell.args,
        scaling=experiment.scaling,
        measure=experiment.measure,
        device=run.device,
        timeout_seconds=experiment.timeout_seconds,
        definition=experiment.resolved(),
        definition_sha256=experiment.sha256(),
        argv=[node.argv for node in nodes],
        started=utc_now(),
        **surroundings,
    )


def _one(target: Target, request: Request, folder: RunFolder, launch: Launch, screen: Screen) -> Record:
    """Start one run, follow it to its end or its deadline, and keep the record whatever happens."""
    began = time.monotonic()
    stopped_because = None
    with ctrl_c_raises():
        execution = None
        try:
            execution = target.start(request, folder)
            if not follow(execution, began + launch.timeout_seconds, screen):
                stopped_because = "timed_out"
        except KeyboardInterrupt:
            stopped_because = "interrupted"
        except OSError as error:
            stopped_because = f"could not be started or followed: {error}"
        with ctrl_c_waits():
            if stopped_because and execution:
                screen.stopping(stopped_because)
                execution.stop()
            outcome = Outcome(
                ended=utc_now(),
                wall_seconds=time.monotonic() - began,
                exits=execution.exits if execution else [],
                stopped_because=stopped_because,
            )
            folder.keep_outcome(outcome)
            record = collect(folder, launch, outcome)
            folder.finish(record)
    return record


def follow(execution: Execution, deadline: float, screen: Screen) -> bool:
    """Show what comes until all has ended; False if the deadline came first."""
    for line in execution.lines():
        if isinstance(line, Note):
            screen.note(line.text)
        elif line is not None:
            event = parse_line(line.text)
            if isinstance(event, Event):
                screen.event(event)
        elif time.monotonic() > deadline:
            return False
    return True


def utc_now() -> str:
    """Return the time of day as a record has it."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


@contextmanager
def ctrl_c_raises() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a run as Ctrl-C does: collected and recorded."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM]  # SIGINT too: a shell's background job is born deaf to it
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup asks for that
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def ctrl_c_waits() -> Iterator[None]:
    """Hold further signals back while what was started is ended, which takes a bounded time."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
