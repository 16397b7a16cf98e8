"""Right training scripts in many styles, and the same with one mistake each; the truth of each was measured.

Of the mistakes of one kind every second is tried, and all with KIT_CORPUS=whole.
"""

import os
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.definitions.choices import Selection
from runner.tools.check.check_command import request
from runner.tools.check.finding import MISTAKE, Verdict
from runner.tools.check.remote import carry_out

kind_of = itemgetter("kind")
HERE = Path(__file__).parent
SCRIPTS = HERE / "scripts"
WHOLE = [entry for path in sorted(HERE.glob("mistakes*.yaml")) for entry in yaml.safe_load(path.read_text("utf-8"))]
OF_KINDS = [list(entries) for _, entries in groupby(sorted(WHOLE, key=kind_of), kind_of)]
MISTAKES = WHOLE if os.environ.get("KIT_CORPUS") == "whole" else [entry for kind in OF_KINDS for entry in kind[::2]]
NEAR = 5
"""So many lines a finding may be away from the line that a person changes.

A mistake that is `seen: elsewhere` is named at another line; one that is `seen: not` leaves the verdict unknown.
"""


FEW = ("chinese_norm", "numpy_bucket", "every rank is rank 0 of the sampler", "random_split with the seed of the rank")
"""What is checked without the rest of the corpus, too."""


UNSEEN = ("parameter_averaging", "trainer_stream")
"""Right scripts of which something decisive cannot be seen: averaged weights, samples handed on."""


def _slow_but_few(value: Any, name: str) -> Any:
    return pytest.param(value, id=name, marks=[] if name in FEW else [pytest.mark.slow])


pytestmark = pytest.mark.usefixtures("forked")


def changed(entry: dict[str, Any]) -> str:
    """Return the script with the mistake; each text that is changed is there exactly once."""
    text = (SCRIPTS / f"{entry['script']}.py").read_text("utf-8")
    for old, new in entry["change"]:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def checked(text: str, folder: Path, name: str) -> Verdict:
    script = folder / f"{name}.py"
    script.write_text(text, "utf-8")
    mark = "# args: "
    arguments = next((line.removeprefix(mark).split() for line in text.splitlines() if line.startswith(mark)), [])
    scratch = folder / "seen"
    scratch.mkdir()
    run, asked = request(Selection(str(script), arguments), 2, 300)
    return carry_out(asked, run.experiment.root, scratch, lambda _: None)


@pytest.mark.parametrize("name", [_slow_but_few(path.stem, path.stem) for path in sorted(SCRIPTS.glob("*.py"))])
def test_no_mistake_is_found_in_a_right_script(name: str, tmp_path: Path) -> None:
    verdict = checked((SCRIPTS / f"{name}.py").read_text("utf-8"), tmp_path, name)
    assert [found for found in verdict.findings if found.level == MISTAKE] == []
    assert (verdict.word, bool(verdict.unknown)) == (("unknown", True) if name in UNSEEN else ("same", False))


WRAPPED = "torch.nn.Linear(16, 2)))"
HOOKED = f"""{WRAPPED}
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
    classifier.register_comm_hook(None, fp16_compress_hook)"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "change", "off"),
    [
        # Epochs that are shorter than what is replayed, of workers that fetch batches ahead.
        ("zero_redundancy", [("Waves(320)", "Waves(64)"), ("num_workers=1", "num_workers=2")], 1e-5),
        # A learning rate that grows as the samples of a step do.
        (
            "class_balance",
            [("40 // dist.get_world_size()", "40"), ("lr=1e-2", "lr=1e-2 * dist.get_world_size()")],
            1e-5,
        ),
        # Gradients that are averaged in half precision.
        ("class_balance", [(WRAPPED, HOOKED)], 3e-3),
    ],
)
def test_a_right_script_stays_right_however_it_is_scheduled_or_fed(
    tmp_path: Path, script: str, change: list[tuple[str, str]], off: float
) -> None:
    verdict = checked(changed({"script": script, "change": change}), tmp_path, script)
    assert (verdict.word, verdict.unknown) == ("same", [])
    assert max(verdict.off) < off


@pytest.mark.parametrize("entry", [_slow_but_few(entry, entry["name"]) for entry in MISTAKES])
def test_a_mistake_is_named_by_kind_and_line(entry: dict[str, Any], tmp_path: Path) -> None:
    text = changed(entry)
    (at,) = [number for number, line in enumerate(text.splitlines(), 1) if entry["at"] in line]
    verdict = checked(text, tmp_path, entry["script"])
    kinds = {entry["kind"], *entry.get("or", [])}
    if entry.get("seen") == "not":
        assert verdict.word == "unknown"
        return
    mistakes = [found for found in verdict.findings if found.level == MISTAKE]
    near = NEAR if "seen" not in entry else len(text)
    assert any(found.kind in kinds and found.line and abs(found.line - at) <= near for found in mistakes), (
        at,
        [(found.kind, found.line, found.evidence) for found in mistakes],
        verdict.unknown,
    )
