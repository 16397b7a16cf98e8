"""Something is done with all hosts at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from runner.core.text import listed
from runner.targets.ssh.session import HostError, Session

MOST_AT_ONCE = 16
_One = TypeVar("_One")
_Got = TypeVar("_Got")


def on_all(do: Callable[[_One], _Got], items: Sequence[_One]) -> list[_Got]:
    """Do something on all hosts at once; HostError with the first line of each that failed."""
    got = attempt(do, items)
    if errors := [one for one in got if isinstance(one, HostError)]:
        for one in got:
            if isinstance(one, Session):
                one.close()
        raise HostError(listed(dict.fromkeys(map(str, errors)), "; "))
    return [one for one in got if not isinstance(one, HostError)]


def attempt(do: Callable[[_One], _Got], items: Iterable[_One]) -> list[_Got | HostError]:
    """Do something with all at once; for what cannot be done, return its error."""

    def one(item: _One) -> _Got | HostError:
        try:
            return do(item)
        except HostError as error:
            return error
        except OSError as error:
            return HostError(str(error))

    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        return list(pool.map(one, items))
