"""Runs -> Verdicts, to level 1: what can be said of a record without running anything again."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from runner.core.text import one_line
from runner.records import manifest
from runner.records.folder import RunFolder
from runner.tools.proof.comparison import chosen_by_the_clock
from runner.tools.proof.inputs import Inputs
from runner.tools.proof.integrity import check_whole, runs_at
from runner.tools.proof.kit import Kit
from runner.tools.proof.level import Check, Verdict


def verify(paths: Iterable[Path], inputs: Inputs | None) -> Iterator[Verdict]:
    """Say of each run which level it reaches; without inputs to compare with, only whether its record is whole."""
    for path in paths:
        record, faults, parsed = check_whole(path)
        verdict = Verdict(one_line(path))
        if faults or record is None:
            verdict.stopped = faults
        else:
            verdict.level = 0
            if record.status != "completed":
                verdict.notes.append(f"the run is {record.status}: {one_line(record.reason or '', 200)}")
            if chosen := chosen_by_the_clock(record):
                verdict.notes.append(f"the run followed the clock; runner reproduce gives it what it chose: {chosen}")
            said = RunFolder(path).kept_manifest().said
            verdict.notes += [words for words in said if words not in (manifest.AT_THE_END, manifest.LATER)]
            if manifest.AT_THE_END not in said and not record.launch.by_hand:
                verdict.checks.append(Check("manifest", None, manifest.LATER))
            verdict.checks += [parsed] if parsed else []
            if inputs is not None:
                verdict.checks += inputs.check(record, path)
                verdict.stopped = [str(check) for check in verdict.checks if check.same is False]
                verdict.level = 0 if verdict.stopped else 1
        yield verdict


def verify_kit(kit: Kit, level: int) -> list[Verdict]:
    """Say of each run of an archive which level it reaches: none, if a byte of the archive is another."""
    if kit.archive.faults:
        return [Verdict(one_line(kit.archive.path), stopped=kit.archive.faults)]
    results = kit.archive.results
    verdicts = list(verify(runs_at(results, []), Inputs(kit) if level else None))
    for verdict in verdicts:
        verdict.run = f"{one_line(kit.archive.path)}: {verdict.run.removeprefix(f'{results}/')}"
    return verdicts
