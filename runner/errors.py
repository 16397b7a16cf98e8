"""What can go wrong, and the exit code that says so.

    KitError                 one line on the screen, never a traceback
    ├── RequestError    2    the request was wrong: a definition, an option, a machine that lacks something
    └── RunError        1    a run that was started did not end well

Ctrl-C ends with 130; anything else that is raised is a defect of ours and ends with 3 and a log to send.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

EXIT_INTERRUPTED = 130
EXIT_DEFECT = 3


class KitError(Exception):
    """An expected error: its text is one line that names the place and the way out."""

    exit_code = 1


class RequestError(KitError):
    """The request cannot be carried out as it stands; nothing was started or written."""

    exit_code = 2


class RunError(KitError):
    """A run was started and failed; its record is kept."""

    exit_code = 1


def did_you_mean(word: object, known: Iterable[object]) -> str:
    """Return `; did you mean 'x'?` where one of the known words is near, else what is known."""
    names = [str(name) for name in known]
    near = difflib.get_close_matches(str(word), names, n=1, cutoff=0.6)
    if near:
        return f"; did you mean '{near[0]}'?"
    return f"; known: {', '.join(names)}" if names else ""


def one_line(text: object) -> str:
    """Fold any text, control characters and all, into one printable line."""
    folded = " ".join(str(text).split())
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in folded)
