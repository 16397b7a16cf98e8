"""A start that is refused, and a stop that fails, are recorded as any other end of a run."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, cast

import pytest

from runner.core.errors import RequestError
from runner.execution import signals
from runner.execution.observer import Observer, guarded
from runner.execution.supervise import Life, supervise
from runner.records.folder import begin
from runner.records.schema import Record
from runner.targets import watchdog
from runner.targets.kubernetes.client import ClusterError
from runner.targets.ssh.openssh import HostError
from tests.support.records import Make

NOBODY = guarded(cast(Observer, None))
"""An observer that shows nothing, since none of its defects ends a run."""


def raising(error: BaseException) -> Callable[..., NoReturn]:
    def fail(*_: object) -> NoReturn:
        raise error

    return fail


class Refused(Life):
    """A run that a watchdog would clean up, and whose start and cleanup fail."""

    guard = ("local", [])
    cleaned_up: BaseException | None = None
    started: BaseException = AssertionError("it is not started")

    def start(self) -> NoReturn:
        raise self.started

    def cleanup(self) -> None:
        if self.cleaned_up:
            raise self.cleaned_up


def carried_out(results: Path, make: Make, **fails: BaseException) -> Record:
    """Carry out a run of two nodes; its record as it is kept."""
    launch = make.launch(layout="1+1")
    life = Refused(begin(results, launch, "{}", ""), launch)
    vars(life).update(fails)
    with signals.taken() as interrupts:
        supervise(life, NOBODY, interrupts)
    return life.folder.read()


REFUSALS = [
    RequestError("no kubeconfig: ~/.kube/config does not exist"),
    ClusterError(0, "no cluster answers at https://there"),
    HostError("host a: it does not answer"),
]


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
def test_a_refused_start_and_a_signal_in_its_midst_are_recorded(tmp_path: Path, make: Make, error: Exception) -> None:
    record = carried_out(tmp_path, make, started=error, cleaned_up=error)
    assert (record.status, record.reason) == ("failed", f"could not be started or followed: {error}")
    record = carried_out(tmp_path, make, started=KeyboardInterrupt(), cleaned_up=error)
    left = f"node 0, 1: what is left of it could not be ended: {error}; look there for {record.launch.id}"
    assert record.status == "interrupted"
    assert record.reason == f"stopped by Ctrl-C or a signal to the runner; {left}"


def test_without_room_for_a_watchdog_nothing_starts(
    tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "watch", raising(OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))))
    record = carried_out(tmp_path, make)
    assert record.status == "failed"
    assert record.reason == "could not be started or followed: [Errno 11] Resource temporarily unavailable"
