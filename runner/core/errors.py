"""What can go wrong, and the exit code of each.

    KitError                 one line on the screen, never a traceback
    ├── RequestError    2    the request was wrong: a definition, an option, a machine that lacks something
    ├── RunError        1    a run that was started did not end well, or a record or an archive does not hold
    └── Interrupted   130    Ctrl-C or another signal; what was started has ended and is recorded

Anything else that is raised is a defect of ours: exit code 3 and a log to send.
"""

import difflib
import itertools
from collections.abc import Iterable

EXIT_INTERRUPTED = 130
EXIT_DEFECT = 3
_LONGEST_WORD = 100
_MOST_WORDS = 1_000


class KitError(Exception):
    """An expected error: its text is one line that names the place and the way out."""

    exit_code = 1


class RequestError(KitError):
    """The request cannot be carried out as it stands; nothing was started or written."""

    exit_code = 2


class RunError(KitError):
    """A run was started and failed, and its record is kept; or a record or an archive is not what it has to be."""


class Interrupted(KitError):  # noqa: N818 - it is asked for
    """A signal ended the command; whatever it had started has ended, and is recorded."""

    exit_code = EXIT_INTERRUPTED

    def __init__(self) -> None:
        super().__init__("interrupted")


def reason_of(error: Exception) -> str:
    """Return why something failed: the system's words for its error, without a path, else the error's own."""
    return getattr(error, "strerror", None) or str(error)


def did_you_mean(word: object, known: Iterable[object]) -> str:
    """Return `; did you mean 'x'?` if one of the known words is near, else what is known.

    To compare words takes the product of their lengths: long ones and many ones are not compared.
    """
    names = [str(name)[:_LONGEST_WORD] for name in itertools.islice(known, _MOST_WORDS)]
    near = difflib.get_close_matches(str(word)[:_LONGEST_WORD], names, n=1, cutoff=0.6)
    if near:
        return f"; did you mean '{near[0]}'?"
    return f"; known: {', '.join(names)}" if names else ""
