"""Questions that are asked at the same time, for a bounded time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from runner.core import clock

Answer = TypeVar("Answer")


def together(questions: Sequence[Callable[[], Answer]], seconds: float) -> list[Answer | None]:
    """Return what each function returns, None for one that takes longer; what one raises is raised here.

    A function that hangs, for example in the resolver, is left alone: its thread does not keep the process alive.
    """
    answers: list[Answer | None] = [None] * len(questions)
    errors: list[BaseException] = []

    def put(number: int, question: Callable[[], Answer]) -> None:
        try:
            answers[number] = question()
        except BaseException as error:  # noqa: BLE001 - raised below, in the thread that asks
            errors.append(error)

    threads = [threading.Thread(target=put, args=one, daemon=True) for one in enumerate(questions)]
    for thread in threads:
        thread.start()
    deadline = clock.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - clock.monotonic()))
    if errors:
        raise errors[0]
    return list(answers)
