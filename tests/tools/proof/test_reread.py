"""`runner verify` finds an altered record behind a matching manifest, and accuses no other."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.records.folder import RunFolder
from runner.records.provenance import describe_runner
from runner.tools.proof.integrity import Verdict, read_again, verify
from tests.records.test_schema1 import KEPT
from tests.support.records import Make


def altered(folder: RunFolder, change: Callable[[dict[str, Any]], object]) -> Verdict:
    """Alter a record, seal it again, and verify it."""
    document = json.loads((folder.path / "run.json").read_bytes())
    change(document)
    (folder.path / "run.json").write_text(json.dumps(document))
    said = folder.kept_manifest().said
    (folder.path / "SHA256SUMS").unlink()
    folder.reseal("run.json", said[0])
    return verify(folder.path, 1)


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "time": (lambda record: record["metrics"].update(train_seconds=1.5), "metrics.train_seconds is 1.5 .* and 10.0"),
    "args": (lambda record: record["launch"]["args"].update(epochs=9), "launch.args.epochs is 9 "),
    "added": (lambda record: record["metrics"].update(best_seconds=1.0), "best_seconds is 1.0 .* and absent"),
    "removed": (lambda record: record["metrics"].pop("train_seconds"), "train_seconds is absent .* and 10.0"),
}


@pytest.mark.parametrize(("change", "says"), CHANGES.values(), ids=CHANGES)
def test_whatever_was_changed_in_a_record_is_named_with_both_values(
    make: Make, tmp_path: Path, change: Callable[[dict[str, Any]], object], says: str
) -> None:
    verdict = altered(make.run(tmp_path, runner=describe_runner()), change)
    assert (verdict.level, verdict.checks[-1].same, len(verdict.stopped)) == (0, False, 1)
    assert re.search(says, verdict.stopped[0])


def test_a_record_of_another_version_is_accused_of_nothing_and_reaches_no_level_1(make: Make, tmp_path: Path) -> None:
    change, says = CHANGES["time"]
    verdict = altered(make.run(tmp_path, runner={"version": "0.0.9", "manifest": "SHA256SUMS"}), change)
    assert (verdict.level, verdict.checks[-1].same) == (0, None)
    assert re.search(rf"\(0.0.9\).*{says}", verdict.stopped[0])


def test_a_whole_record_is_none_of_these(make: Make, tmp_path: Path) -> None:
    folder = make.run(tmp_path, runner=describe_runner())
    assert verify(folder.path, 1).level == 1
    (first,) = (KEPT / "quickstart").iterdir()
    assert read_again(first, RunFolder(first).read()).same is not False


def test_a_masked_record_is_not_accused_of_what_is_masked(make: Make, tmp_path: Path) -> None:
    masked = make.run(tmp_path, masked=["request/code.diff"], runner=describe_runner())
    verdict = altered(masked, lambda record: record["facts"].update(dataset="<masked>"))
    assert (verdict.level, [(check.name, check.same) for check in verdict.checks]) == (
        0,
        [("secrets", None), ("raw output", None)],
    )
