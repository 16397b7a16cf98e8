"""Expected errors and their exit codes.

    KitError                 one line on the screen, never a traceback
    ├── RequestError    2    invalid request: a definition, an option, or a machine that lacks something
    ├── RunError        1    a run failed, or a record or an archive is invalid
    └── Interrupted   130    Ctrl-C or another signal

Any other exception is a defect in the runner: exit code 3 and a log to send.
"""

import difflib
import itertools
from collections.abc import Iterable

EXIT_INTERRUPTED = 130
EXIT_DEFECT = 3
_LONGEST_WORD = 100
_MOST_WORDS = 1_000


class KitError(Exception):
    """An expected error. Its one-line text says where the error is and how to mend it."""

    exit_code = 1


class RequestError(KitError):
    """The request cannot be carried out. Nothing was started or written."""

    exit_code = 2


class RunError(KitError):
    """A run failed and its record is kept, or a record or an archive is invalid."""


class Interrupted(KitError):  # noqa: N818 - the user asked for it
    """A signal ended the command. Everything that the command had started has ended and is recorded."""

    exit_code = EXIT_INTERRUPTED

    def __init__(self) -> None:
        super().__init__("interrupted")


def reason_of(error: Exception) -> str:
    """Return the system's message of an OSError, which names no path. For other errors, return the text."""
    return getattr(error, "strerror", None) or str(error)


def did_you_mean(word: object, known: Iterable[object]) -> str:
    """Return `; did you mean 'x'?` with the most similar known word. If none is similar, list the known words.

    Long words and long lists are cut, since their comparison would take too long.
    """
    names = [str(name)[:_LONGEST_WORD] for name in itertools.islice(known, _MOST_WORDS)]
    near = difflib.get_close_matches(str(word)[:_LONGEST_WORD], names, n=1, cutoff=0.6)
    if near:
        return f"; did you mean '{near[0]}'?"
    return f"; known: {', '.join(names)}" if names else ""
