"""What a training script did, seen from inside without a word changed in it: counts and clocks, as event lines.

The runner puts this folder on the path of a run's processes (`runner/targets/hooks`), which asks for the hooks of a
part of torch as soon as that is imported. It needs Python 3.8, PyTorch 2.0 and nothing else of the kit, and prints
`observed` lines: each has all that was seen so far, so that the last one counts. A figure that could not be seen is
null, and `unknown` says why. docs/own-repository.md says what the figures mean.
"""

from .hooks import WATCHED, begin

__all__ = ["WATCHED", "begin"]
