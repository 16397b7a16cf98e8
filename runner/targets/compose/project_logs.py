"""The output of a compose project, whoever started it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.core.errors import RequestError, did_you_mean
from runner.core.text import one_line
from runner.targets.compose import engine
from runner.targets.outputs import MOST, Output

if TYPE_CHECKING:
    from docker.models.containers import Container

_PROJECT = "com.docker.compose.project"
_SERVICE = "com.docker.compose.service"
_NUMBER = "com.docker.compose.container-number"
_ENDED = ("exited", "dead")


def outputs(project: str) -> list[Output]:
    """Return the output of each container of a project; RequestError if it has none, or if no engine answers."""
    client = engine.reach()
    with engine.asked():
        found = client.containers.list(all=True, filters={"label": f"{_PROJECT}={project}"})
        if not found:
            every = client.containers.list(all=True, filters={"label": _PROJECT})
            known = sorted({one.labels[_PROJECT] for one in every})
            there = f"; there are {', '.join(known[:10])}" if known else ""
            raise RequestError(
                one_line(f"compose:{project}: no container of such a project{did_you_mean(project, known) or there}")
            )
        if len(found) > MOST:
            raise RequestError(
                one_line(f"compose:{project}: {len(found):,} containers; {MOST} are the most that are read together")
            )
        return [_output(one) for one in sorted(found, key=_place)]


def _place(container: Container) -> tuple[str, int, str]:
    number = container.labels.get(_NUMBER, "")
    return container.labels.get(_SERVICE, ""), int(number) if number.isdecimal() else 0, str(container.name)


def _output(container: Container) -> Output:
    state = container.attrs["State"]
    code = state.get("ExitCode") if state.get("Status") in _ENDED else None
    service, number, _ = _place(container)
    chunks = container.logs(stream=True, follow=False, timestamps=True)
    return Output(f"{one_line(service or container.name)}-{number or 1}  | ", chunks, code)
