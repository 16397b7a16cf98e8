"""Checks scripts with labels and counts what is found: `python -m tests.tools.check.score FOLDER [NAME ...]`."""

import json
import sys
import time
from pathlib import Path

from runner.core.temporary import temporary_folder
from runner.tools.check import processes
from runner.tools.check.checking import check
from runner.tools.check.check_command import _program
from tests.tools.check.warm import WarmServer


def main() -> None:
    folder, *names = sys.argv[1:]
    with WarmServer() as server:
        processes.start = server.start  # type: ignore[assignment]
        for label in sorted(Path(folder).glob("*.json")):
            if names and label.stem not in names:
                continue
            wanted = json.loads(label.read_text())
            began = time.monotonic()
            with temporary_folder("check") as scratch:
                program = _program(
                    str(label.with_suffix(".py").absolute()), list(wanted.get("args") or []), [], "cpu", 2
                )
                verdict = check(program, 2, 120, scratch, lambda _: None)
            mistakes = [finding for finding in verdict.findings if finding.level == "mistake"]
            want = [finding for finding in wanted["findings"] if finding["level"] == "mistake"]
            if want:
                kinds = {want[0]["kind"], *want[0].get("or", [])}
                good = any(f.kind in kinds and f.line and abs(f.line - want[0]["line"]) <= 5 for f in mistakes)
            else:
                good = verdict.word == "same"
            print(
                "ok   " if good else "WRONG",
                f"{time.monotonic() - began:5.1f} s",
                label.stem,
                verdict.word,
                [(f.kind, f.line) for f in verdict.findings],
                [] if good else [f["kind"] + ":" + str(f["line"]) for f in want],
                *verdict.unknown,
                flush=True,
            )


if __name__ == "__main__":
    main()
