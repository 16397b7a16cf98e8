"""A start that is refused, and a stop that fails, are recorded as any other end of a run."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from runner.core.errors import RequestError
from runner.execution import signals
from runner.execution.observer import Observer, guarded
from runner.execution.run import Life, supervise
from runner.records.folder import begin
from runner.records.schema import Record
from runner.targets import watchdog
from runner.targets.base import Target
from runner.targets.kubernetes.client import ClusterError
from runner.targets.ssh.openssh import HostError
from tests.support.records import Make

NOBODY = guarded(cast(Observer, None))
"""An observer that shows nothing, since none of its defects ends a run."""


def raising(error: BaseException) -> Callable[..., NoReturn]:
    def fail(*_: object) -> NoReturn:
        raise error

    return fail


def carried_out(results: Path, make: Make, started: BaseException, cleaned_up: Exception) -> Record:
    """Carry out a run of two nodes whose start and cleanup fail; its record as it is kept."""
    launch = make.launch(layout="1+1")
    target = SimpleNamespace(name="local", cleanup=raising(cleaned_up))
    life = Life(begin(results, launch, "{}", ""), launch, raising(started), target=cast("Target[Any]", target))
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
    record = carried_out(tmp_path, make, error, error)
    assert (record.status, record.reason) == ("failed", f"could not be started or followed: {error}")
    record = carried_out(tmp_path, make, KeyboardInterrupt(), error)
    left = f"node 0, 1: what is left of it could not be ended: {error}; look there for {record.launch.id}"
    assert record.status == "interrupted"
    assert record.reason == f"stopped by Ctrl-C or a signal to the runner; {left}"


def test_without_room_for_a_watchdog_nothing_starts(
    tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "watch", raising(OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))))
    nothing = AssertionError("it is not started")
    record = carried_out(tmp_path, make, nothing, OSError())
    assert record.status == "failed"
    assert record.reason == "could not be started or followed: [Errno 11] Resource temporarily unavailable"
