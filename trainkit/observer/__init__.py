"""Observe an unchanged training script from inside its process, and report counts and clocks as events.

The runner puts this folder on the path of a run's processes (`runner/targets/hooks`). It needs Python 3.8, PyTorch 2.0
and nothing else of the kit. Each `observed` line holds all figures so far, so the last one counts. Unobservable figures
are null, with the reason in `unknown`. docs/own-repository.md explains the figures.
"""

from .hooks import WATCHED, begin

__all__ = ["WATCHED", "begin"]
