"""A failed start and a failed stop are recorded like any other end of a run."""

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
from runner.targets.ssh.openssh import HostError
from tests.support.records import Make


def raising(error: BaseException) -> Callable[..., NoReturn]:
    def fail(*_: object) -> NoReturn:
        raise error

    return fail


def carried_out(results: Path, make: Make, started: BaseException, cleaned_up: Exception) -> Record:
    """Carry out a run of two nodes whose start and clean-up fail, and return its record."""
    launch = make.launch(layout="1+1")
    target = SimpleNamespace(name="local", cleanup=raising(cleaned_up))
    life = Life(begin(results, launch, "{}", ""), launch, raising(started), target=cast("Target[Any]", target))
    with signals.taken() as interrupts:
        supervise(life, guarded(cast(Observer, None)), interrupts)
    return life.folder.read()


@pytest.mark.parametrize("error", [RequestError("no kubeconfig"), HostError("host a: it does not answer")])
def test_a_refused_start_and_a_signal_in_its_midst_are_recorded(tmp_path: Path, make: Make, error: Exception) -> None:
    record = carried_out(tmp_path, make, error, error)
    assert (record.status, record.reason) == ("failed", f"could not be started or followed: {error}")
    record = carried_out(tmp_path, make, KeyboardInterrupt(), error)
    assert record.status == "interrupted"
    assert all(word in record.reason for word in ("node 0, 1: ", str(error), record.launch.id)), record.reason


def test_without_room_for_a_watchdog_nothing_starts(
    tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "watch", raising(OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))))
    record = carried_out(tmp_path, make, AssertionError("it is not started"), OSError())
    assert (record.status, "Resource temporarily unavailable" in record.reason) == ("failed", True)
