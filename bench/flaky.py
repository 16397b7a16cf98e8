"""Run tests many times beside busy loops, and list those that fail at least once.

    python -m bench.flaky --times 20 --busy 4 -- tests/contract -m "not alone" -n 4

Words after `--` go to pytest. The exit code is 1 if any test failed.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

BUSY = "while True: pass"


def main() -> None:
    """Run the tests, and print a line for each round and each failed test."""
    parser = argparse.ArgumentParser(prog="bench.flaky", description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="rounds")
    parser.add_argument("--busy", type=int, default=4, help="busy loops beside the tests")
    parser.add_argument("words", nargs="*", help="arguments for pytest")
    args = parser.parse_args()
    tried: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    reasons: dict[str, str] = {}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    stopped = False
    loops = [subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True) for _ in range(args.busy)]
    try:
        for number in range(1, args.times + 1):
            began = time.monotonic()
            outcomes = one_round(args.words)
            failures = {test: reason for test, reason in outcomes.items() if reason is not None}
            tried.update(outcomes.keys())
            failed.update(failures.keys())
            reasons.update(failures)
            seconds = time.monotonic() - began
            print(f"round {number}: {len(failures)} of {len(outcomes)} tests failed, {seconds:.0f} s", flush=True)
    except KeyboardInterrupt:
        stopped = True
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    for test, count in failed.most_common():
        print(f"{count} of {tried[test]}  {test}\n    {reasons[test]}")
    print(f"{len(failed)} of {len(tried)} tests failed at least once")
    sys.exit(130 if stopped else 1 if failed or not tried else 0)


def one_round(words: list[str]) -> dict[str, str | None]:
    """Run pytest once; return the first line of each test's failure, or None if it passed.

    The key `pytest` is added if pytest failed without a failed test.
    """
    outcomes: dict[str, str | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        pytest = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}"]
        code = subprocess.run([*pytest, *words], stdout=subprocess.DEVNULL, check=False).returncode
        cases = list(ET.parse(report).getroot().iter("testcase")) if report.exists() else []  # noqa: S314 - trusted
    for case in cases:
        skipped = case.find("skipped")
        if skipped is not None and skipped.get("type") != "pytest.xfail":
            continue
        test = f"{case.get('classname')}::{case.get('name')}"
        trouble = next((found for kind in ("failure", "error") if (found := case.find(kind)) is not None), None)
        reason = None if trouble is None else trouble.get("message", "").partition("\n")[0]
        outcomes[test] = outcomes.get(test) or reason  # a teardown's error is a second case
    if code and not any(outcomes.values()):
        outcomes["pytest"] = f"it ended with {code}, and no test failed"
    return outcomes


if __name__ == "__main__":
    main()
