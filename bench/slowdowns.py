"""Test how often `runner explain` names an injected slowdown, and nothing in a clean run.

    python -m bench.slowdowns [--only KIND] [--times N] [--keep FOLDER]

Each run has two processes. `loader`: 30 ms of sleep before each batch of rank 1. `quota`: half a core for node 1, by
its cgroup. `link`: node 1 sends at 50 Mbit/s, by `tc tbf` in a network namespace. The last two need root. Runs that
mostly wait run in parallel. The exit code is 1 if a result was wrong.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from bench.slow_runs import KINDS, RunFailedError, found_in, is_right, why_not

SERIES = {"loader": 20, "quota": 20, "link": 20, "clean": 50}
AT_ONCE = {"loader": 2, "link": 4}
"""Parallel runs: these kinds mostly wait, so that the injected slowdown stays the same."""


def try_once(kind: str, keep: Path | None, number: int) -> str | None:
    """Make one run; return what was named instead of the injected slowdown, or None if it was right.

    A misread run is copied to `keep`, if given.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"kit-{kind}-"))
    try:
        found = found_in(KINDS[kind](folder))
        right = is_right(kind, found)
        instead = "; ".join(finding.sentence for finding in found) or "nothing"
    except RunFailedError as error:
        right, instead = False, str(error)
    if keep and not right:
        shutil.copytree(folder, keep / f"{kind}-{number}", symlinks=True)
    shutil.rmtree(folder, ignore_errors=True)
    return None if right else instead


def main() -> int:
    """Make some runs of each kind, and print how often the right rank and cause were named."""
    parser = argparse.ArgumentParser(prog="bench.slowdowns", description=__doc__)
    parser.add_argument("--only", choices=SERIES, metavar="KIND", help=", ".join(SERIES))
    parser.add_argument("--times", type=int, help="runs of each kind")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep here the runs that were misread")
    args = parser.parse_args()
    all_right = True
    for kind in [args.only] if args.only else SERIES:
        count = args.times or SERIES[kind]
        if why := why_not(kind):
            print(f"slowdowns: {kind}: not tried: {why}", flush=True)
            continue
        began = time.monotonic()
        with ThreadPoolExecutor(AT_ONCE.get(kind, 1)) as pool:
            instead = Counter(seen for seen in pool.map(partial(try_once, kind, args.keep), range(count)) if seen)
        wrong = sum(instead.values())
        seconds = time.monotonic() - began
        print(f"slowdowns: {kind}: right in {count - wrong} of {count} ({seconds:.0f} s)", flush=True)
        for what, times in instead.items():
            print(f"  {times} x found instead: {what}", flush=True)
        all_right = all_right and not wrong
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main())
